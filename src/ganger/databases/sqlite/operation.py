"""What a shared file runs: operations, and the session that each is handed inside the owner's transaction."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import apsw
import msgspec

from ganger.core.clock import Moment, Wall
from ganger.core.errors import PayloadTooLarge, StoreBroken, StoreError

Req = TypeVar("Req")
Rep = TypeVar("Rep")
Undo = Callable[[], None]


class Mark(NamedTuple):
    """A point in a session to which it can be rewound."""

    topics: int
    undo: int


class Session:
    """The open transaction of the owner, as an operation sees it. It lives on the owner's thread, for one transaction.

    `now` and `wall` were read once when the transaction began: they are the store's time, never the caller's.
    `state` is what `prepare` returned when this process became the owner.
    An operation finishes its cursors, and neither begins nor ends a transaction.
    """

    __slots__ = ("_done", "_flushes", "_topics", "_undo", "connection", "flushes_asked", "now", "state", "wall")

    def __init__(self, connection: apsw.Connection, now: Moment, wall: Wall, state: Any) -> None:
        self.connection = connection
        self.now = now
        self.wall = wall
        self.state = state
        self.flushes_asked = 0
        self._topics: list[str] = []
        self._undo: list[Undo] = []
        self._flushes: dict[Hashable, Callable[[Session], None]] = {}
        self._done: set[Hashable] = set()

    def wake(self, topic: str) -> None:
        """After the commit every listener of the topic, in every process, is told. Dropped if the unit fails."""
        self._topics.append(topic)

    def rolled_back(self, undo: Undo) -> None:
        """Called if this unit or the whole commit is rolled back, newest first: so caches in `state` stay true."""
        self._undo.append(undo)

    def before_commit(self, key: Hashable, flush: Callable[["Session"], None]) -> None:
        """Run once per transaction and key, just before COMMIT; also if the unit that asked was rolled back."""
        self.flushes_asked += 1
        self._flushes.setdefault(key, flush)

    def mark(self) -> Mark:
        return Mark(len(self._topics), len(self._undo))

    def rewind(self, mark: Mark) -> None:
        """Take back what was asked for since the mark."""
        del self._topics[mark.topics :]
        try:
            while len(self._undo) > mark.undo:
                self._undo.pop()()
        except Exception as error:
            raise StoreBroken(f"what an operation keeps in memory could not be rolled back: {error}") from error

    def flush(self) -> None:
        """Run what was asked to run before the commit, also what a flush itself asks for."""
        while waiting := [key for key in self._flushes if key not in self._done]:
            for key in waiting:
                self._done.add(key)
                self._flushes[key](self)

    def topics(self) -> tuple[str, ...]:
        """What to wake after the commit, each topic once."""
        return tuple(dict.fromkeys(self._topics))


class Together(NamedTuple):
    """How requests of one operation that wait at the same moment are run as one, which costs less than each alone.

    `fits`: this one may be run so. `run` gives the reply of each, in their order.
    """

    fits: Callable[[Any], bool]
    run: Callable[[Session, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Operation(Generic[Req, Rep]):
    """A named unit of work that any process on the file may ask for.

    `run` is atomic: if it raises, nothing of it is stored, and only its caller gets the error. It may be run again
    after a rollback, so it has no effects outside the session. `request` and `reply` are types that msgspec can
    carry. With `needs_space` it is refused (StoreFull) while only the reserve is left. `receipt` makes a few bytes
    from which `replay` rebuilds the reply, should the caller have to ask again; without it the reply itself is kept.
    `together` says how several are run as one; if that fails, each is run alone.
    """

    name: str
    request: Any
    reply: Any
    run: Callable[[Session, Req], Rep]
    needs_space: bool = False
    receipt: Callable[[Rep], bytes] | None = None
    replay: Callable[[Session, bytes], Rep] | None = None
    together: Together | None = None


class Entry(NamedTuple):
    """An operation with the codecs for its request and reply."""

    operation: Operation[Any, Any]
    requests: msgspec.msgpack.Decoder[Any]
    replies: msgspec.msgpack.Decoder[Any]


class Catalogue:
    """The operations of a file by name, and how they travel."""

    __slots__ = ("_encoder", "_entries", "_largest")

    def __init__(self, operations: Iterable[Operation[Any, Any]], largest: int) -> None:
        self._entries = {operation.name: _enter(operation) for operation in operations}
        self._encoder = msgspec.msgpack.Encoder()
        self._largest = largest

    def find(self, name: str) -> Entry:
        if (entry := self._entries.get(name)) is None:
            raise StoreError(f"the owner of the file knows no operation {name!r}: is it of another version?", name=name)
        return entry

    def together(self, name: str) -> Together | None:
        entry = self._entries.get(name)
        return None if entry is None else entry.operation.together

    def encode(self, value: object) -> bytes:
        """The bytes of a request or reply; one that no frame can hold is refused."""
        encoded = self._encoder.encode(value)
        if len(encoded) > self._largest:
            raise PayloadTooLarge(
                f"a message of {len(encoded)} bytes is over the limit of {self._largest}: ask for less at once",
                size=len(encoded),
                limit=self._largest,
            )
        return encoded


def _enter(operation: Operation[Any, Any]) -> Entry:
    if (operation.receipt is None) != (operation.replay is None):
        raise StoreError(f"operation {operation.name!r} needs receipt and replay, or neither", name=operation.name)
    return Entry(operation, msgspec.msgpack.Decoder(operation.request), msgspec.msgpack.Decoder(operation.reply))
