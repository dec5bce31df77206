"""The lines of an export as typed values; what a line has besides is left alone."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from ganger.core.errors import BadInput
from ganger.core.queue import Policy
from ganger.core.state import is_final


class QueueLine(msgspec.Struct, frozen=True, tag_field="type", tag="queue"):
    """A queue and its policy. What its results become is not carried over: ids differ from store to store."""

    name: str
    sort: str = Policy().sort
    max_active: int | None = None
    max_per_node: int | None = None
    max_per_key: int | None = None
    on_lost: str = Policy().on_lost
    retry: str = Policy().retry
    batch_size: int | None = None
    plugin: str | None = None
    pin: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ephemeral: bool = False

    @property
    def policy(self) -> Policy:
        fields = {name: getattr(self, name) for name in Policy._fields if name != "becomes"}
        return Policy(**fields)


class TaskLine(msgspec.Struct, frozen=True, tag_field="type", tag="task"):
    """What is needed of a task to make it anew."""

    id: int
    queue: str
    kind: str
    code: int
    spec: str | None = None
    spec_base64: str | None = None
    priority: int = 1024
    delay: int = 0
    parents: list[tuple[int, str]] = []
    join: str = "all"
    group: int | None = None
    key: str | None = None
    description: str | None = None
    retry: str | None = None
    timeout: int | None = None
    renewal: str = "liveness"
    ttr: int | None = None
    limit_key: str | None = None
    requires: tuple[str, ...] = ()
    due: int | None = None

    @property
    def is_open(self) -> bool:
        return not is_final(self.code)

    @property
    def body(self) -> bytes:
        if self.spec_base64 is None:
            return (self.spec or "").encode()
        try:
            return base64.b64decode(self.spec_base64, validate=True)
        except binascii.Error as error:
            raise BadInput(f"the spec of task {self.id} is not base64: {error}", task=self.id) from None


def read_lines(text: Iterable[str]) -> list[QueueLine | TaskLine]:
    """Every line, or BadInput with the number of the first that is none."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(QueueLine | TaskLine)
    found: list[QueueLine | TaskLine] = []
    for number, line in enumerate(text, 1):
        try:
            found += [decoder.decode(line)] if line.strip() else []
        except msgspec.MsgspecError as error:
            raise BadInput(f"line {number} is not one of an export: {error}", line=number) from None
    return found
