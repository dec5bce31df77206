"""The trace that a request belongs to travels with its tasks."""

from collections.abc import Sequence

from ganger.engine.tracing import CONTEXT, is_context
from ganger.faces.http.request import Request
from ganger.wire.v1.requests import Draft


def give_context(drafts: Sequence[Draft], request: Request) -> list[Draft]:
    """The drafts with the header `traceparent` as a value, unless they bring one. A header that is none is left out."""
    said = request.headers.get(CONTEXT.encode(), b"").decode("latin-1")
    if not is_context(said):
        return list(drafts)
    return [
        draft if any(key == CONTEXT for key, _ in draft.data) else draft._replace(data=[*draft.data, _value(said)])
        for draft in drafts
    ]


def _value(context: str) -> tuple[str, bytes]:
    return CONTEXT, context.encode()
