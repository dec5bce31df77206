"""A spec and the `parameters` that a stranger reads: the same thing, where it can be.

A spec is bytes, and must come back as it was. Where it is a JSON object, written as compactly as can be, the document
has that object; of a plugin's spec it has the params, which is what a Disbatch plugin is given. Any other spec is kept
as bytes beside empty parameters.
"""

from typing import Any, NamedTuple

import msgspec

from ganger.core.task import PLUGIN
from ganger.databases.mongo import is_kept
from ganger.wire.unreadable import UNREADABLE


class Spec(NamedTuple):
    """`parameters` as strangers know them; `raw` if those do not say it all."""

    parameters: Any
    raw: bytes | None = None

    def to_bytes(self, kind: str) -> bytes:
        if self.raw is not None:
            return self.raw
        said = {"params": self.parameters} if kind.startswith(PLUGIN) else self.parameters
        return msgspec.json.encode(said, enc_hook=str)


def from_bytes(kind: str, body: bytes) -> Spec:
    try:
        said = msgspec.json.decode(body)
    except UNREADABLE:
        return Spec({}, body)
    inner = said.get("params") if kind.startswith(PLUGIN) and isinstance(said, dict) else said
    spec = Spec(inner)
    if isinstance(inner, dict) and is_kept(inner) and spec.to_bytes(kind) == body:
        return spec
    return Spec({}, body)
