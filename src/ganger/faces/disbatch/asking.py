"""What a request says, wherever it says it."""

from typing import Any

from ganger.faces.http.request import Request
from ganger.wire.disbatch.params import read_body


async def ask(request: Request) -> Any:
    """The parameters of a request: from its body, or from its address."""
    kind = request.headers.get(b"content-type", b"").decode("latin-1")
    return read_body(kind, await request.body(), request.query)
