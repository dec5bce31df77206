"""The lines of an export as typed values; what a line has besides is left alone."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ganger.core.clock import Wall
from ganger.core.errors import BadInput
from ganger.core.queue import Policy
from ganger.core.state import is_final
from ganger.core.task import EXIT, THEIRS
from ganger.engine.store import Past

CARRIED: Final = ("result", EXIT, THEIRS)
"""The data that go along with a task."""


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
    webhooks: tuple[str, ...] = ()

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
    created: int = 0
    started: int | None = None
    ended: int | None = None
    reason: str | None = None
    branch: bool = True
    attempts: int = 0
    crashes: int = 0
    result: str | None = None
    result_base64: str | None = None
    exit: str | None = None
    exit_base64: str | None = None
    disbatch: str | None = None
    disbatch_base64: str | None = None

    @property
    def is_open(self) -> bool:
        return not is_final(self.code)

    @property
    def body(self) -> bytes:
        return self._read("spec", self.spec, self.spec_base64) or b""

    @property
    def data(self) -> list[tuple[str, bytes]]:
        """What came along with it; of one that is open only what others gave it before it ran."""
        keys = (THEIRS,) if self.is_open else CARRIED
        found = [(key, self._read(key, getattr(self, key), getattr(self, f"{key}_base64"))) for key in keys]
        return [(key, value) for key, value in found if value is not None]

    @property
    def past(self) -> Past:
        """How it ended."""
        ended = Wall(self.created if self.ended is None else self.ended)
        started = None if self.started is None else Wall(self.started)
        return Past(
            self.code, Wall(self.created), ended, started, self.reason, self.branch, self.attempts, self.crashes
        )

    def _read(self, what: str, text: str | None, base64_text: str | None) -> bytes | None:
        if base64_text is None:
            return None if text is None else text.encode()
        try:
            return base64.b64decode(base64_text, validate=True)
        except binascii.Error as error:
            raise BadInput(f"the {what} of task {self.id} is not base64: {error}", task=self.id) from None


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
