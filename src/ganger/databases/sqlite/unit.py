"""A unit of work, its identity on the way to the owner, and those who wait for its outcome."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, NewType, ParamSpec, Protocol

from ganger.core.errors import GangerError, StoreUnavailable

P = ParamSpec("P")
ClientId = NewType("ClientId", bytes)
"""Sixteen random bytes: one open handle in one process."""


class Identity(NamedTuple):
    """By which a unit that is sent again is recognised: its client, one of the client's slots, a number that grows."""

    client: ClientId
    slot: int
    seq: int


class Outcome(NamedTuple):
    """What became of a unit. `encoded` is the reply as it travels, present when the unit has an identity."""

    value: Any = None
    error: GangerError | None = None
    encoded: bytes = b""


_NOTHING_YET: Final = Outcome()
Answered = Callable[[Outcome], None]


class Waiter(Protocol):
    """Whoever gets the outcome of a unit, exactly once, on the thread that serves the file."""

    def tell(self, outcome: Outcome, post: "Post") -> None: ...


class Unit(NamedTuple):
    """One call of one operation."""

    operation: str
    request: Any
    waiter: Waiter
    identity: Identity | None = None
    again: bool = False
    """It may have been run before: look for its receipt."""
    letter: bool = False
    """It is safe already, and nobody waits for its reply."""
    frame: bytes = b""
    """Of a letter: the call as it travels. It has its identity from the beginning, and nobody gives it up."""
    near: Callable[[], None] | None = None
    """Called on the thread that serves the file when the unit was run in this process and is about to be committed."""


class Post:
    """The outcomes of one turn on their way: one wake-up for each event loop, however many units it waits for."""

    __slots__ = ("_loops",)

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, list[tuple[Answered, Outcome]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, told: Answered, outcome: Outcome) -> None:
        """Have that called on the loop."""
        self._loops.setdefault(loop, []).append((told, outcome))

    def deliver(self) -> None:
        for loop, answers in self._loops.items():
            # A loop that was closed has nobody left who waits.
            if not loop.is_closed():
                hand_to_loop(loop, answers)
        self._loops.clear()


def hand_to_loop(loop: asyncio.AbstractEventLoop, answers: "list[tuple[Answered, Outcome]]") -> None:
    call_loop(loop, partial(_tell_all, answers))


def call_loop(loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> None:
    """Have that called on a loop, from any thread; not if the loop is closed."""
    try:
        loop.call_soon_threadsafe(told)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _tell_all(answers: "list[tuple[Answered, Outcome]]") -> None:
    for told, outcome in answers:
        told(outcome)


def _resolve(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if outcome.error is not None:
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome.value)


class Awaited(NamedTuple):
    """A coroutine that waits."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    def tell(self, outcome: Outcome, post: Post) -> None:
        post.add(self.loop, self.resolve, outcome)

    def resolve(self, outcome: Outcome) -> None:
        _resolve(self.future, outcome)


class Haste(Protocol):
    """Hears of a unit on the thread that serves the file, which waits meanwhile: it must not take long."""

    def near(self, outcome: Outcome) -> None:
        """The unit was run, and is about to be committed. Whatever is done now must be of no effect if it is not."""
        ...

    def safe(self, outcome: Outcome) -> None:
        """It is committed, and nobody was told yet."""
        ...

    def void(self) -> None:
        """It was not committed; it may not even have been near."""
        ...


class Called(NamedTuple):
    """Somebody who is called on a loop, without a turn of it in between: it must not fail, and not take long."""

    loop: asyncio.AbstractEventLoop
    told: Answered
    haste: Haste | None = None

    def tell(self, outcome: Outcome, post: Post) -> None:
        post.add(self.loop, self.call, outcome)

    def call(self, outcome: Outcome) -> None:
        self._call(self.told, outcome)

    def near(self, outcome: Outcome) -> None:
        if self.haste is not None:
            self._call(self.haste.near, outcome)

    def safe(self, outcome: Outcome) -> None:
        if self.haste is not None:
            self._call(self.haste.safe, outcome)

    def void(self) -> None:
        if self.haste is not None:
            self._call(self.haste.void)

    def _call(self, told: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            told(*args, **kwargs)
        except Exception as error:
            # The other answers are for others.
            self.loop.call_exception_handler({"message": "an answer could not be taken in", "exception": error})


class Party:
    """One coroutine that waits for several units, and is woken when all of them are done."""

    __slots__ = ("_left", "_loop", "_replies", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, units: int) -> None:
        self.future: asyncio.Future[list[Any]] = loop.create_future()
        self._loop = loop
        self._replies: list[Any] = [None] * units
        self._left = units

    def tell(self, seat: int, outcome: Outcome, post: Post) -> None:
        self._replies[seat] = outcome.value if outcome.error is None else outcome.error
        self._left -= 1
        if not self._left:
            post.add(self._loop, self._resolve, Outcome(self._replies))

    def _resolve(self, outcome: Outcome) -> None:
        _resolve(self.future, outcome)


class Seated(NamedTuple):
    """One unit of a party."""

    party: Party
    seat: int

    def tell(self, outcome: Outcome, post: Post) -> None:
        self.party.tell(self.seat, outcome, post)


class Blocked:
    """A plain thread that waits."""

    __slots__ = ("_gate", "_outcome", "told")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._outcome = _NOTHING_YET
        self.told = False

    def tell(self, outcome: Outcome, post: Post) -> None:
        self._outcome = outcome
        self.told = True
        self._gate.release()

    def wait(self, timeout: float | None) -> Any:
        if not self._gate.acquire(timeout=-1 if timeout is None else timeout):
            raise StoreUnavailable(f"no answer within {timeout} s: the unit may still be done", timeout=timeout)
        # Whoever asks again gets the same answer.
        self._gate.release()
        if self._outcome.error is not None:
            raise self._outcome.error
        return self._outcome.value
