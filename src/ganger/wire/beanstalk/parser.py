"""The client's side of the protocol as it arrives: lines, and bodies behind the lines of puts.

What can go wrong, and what is done about it (where the original does otherwise, it says so):

- *A line of more than 224 bytes* is refused, and what follows it is read as usual. (The original swallows the next
  command behind a line of just 225 bytes.)
- *A put that is refused* has a body all the same, and it is skipped: nobody's job is ever run as commands. (The
  original skips it only if the job is too large.) If the size cannot be read, nobody knows where the body ends: the
  connection is over.
- *A body that does not end where it should* is skipped to the end of its line.
- *A body of a gigabyte* is handed on as it comes. Those up to `inline` bytes are put together, once.
- *Bytes that come one by one* cost what they cost: nothing is looked at twice.
"""

from collections.abc import Callable
from typing import Final

from ganger.wire.beanstalk.commands import (
    MOST_ID,
    MOST_PRIORITY,
    Bury,
    Command,
    Delete,
    Event,
    Ignore,
    Kick,
    KickJob,
    ListTubes,
    ListTubesWatched,
    ListTubeUsed,
    PauseTube,
    Peek,
    PeekBuried,
    PeekDelayed,
    PeekReady,
    Put,
    PutBegun,
    PutEnded,
    PutPiece,
    Quit,
    Refused,
    Release,
    Reserve,
    ReserveJob,
    Stats,
    StatsJob,
    StatsTube,
    Touch,
    Use,
    Watch,
)
from ganger.wire.beanstalk.replies import BAD_FORMAT, EXPECTED_CRLF, JOB_TOO_BIG, UNKNOWN_COMMAND

LONGEST_LINE: Final = 224
"""With its end."""

LONGEST_NAME: Final = 200
INLINE: Final = 65_535
_END: Final = b"\r\n"
_NAME: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()")
_MOST_LONG: Final = (1 << 63) - 1
_MOST_KICKED: Final = (1 << 32) - 1


class Malformed(Exception):
    """A command that is known, with words that do not fit it."""


class Parser:
    """Bytes in, events out. `largest` bounds the body of a job; one of up to `inline` bytes comes whole."""

    def __init__(self, largest: int, inline: int = INLINE) -> None:
        self._largest = largest
        self._inline = inline
        self._buffer = bytearray()
        self._put: tuple[int, int, int, int] | None = None
        self._left = 0
        """So many bytes of a body that is handed on, or skipped, are still to come."""
        self._skip = self._skip_line = self._over = False

    def feed(self, data: bytes) -> list[Event]:
        """What these bytes complete. After an event that says so, nothing more comes."""
        events: list[Event] = []
        if self._over:
            return events
        self._buffer += data
        at = 0
        while not self._over and (behind := self._step(at, events)) is not None:
            at = behind
        del self._buffer[:at]
        return events

    def _step(self, at: int, events: list[Event]) -> int | None:
        """Take what begins there, and say where it ends; None if it is not whole yet."""
        if self._left:
            return self._pass_on(at, events)
        if self._put is not None:
            return self._take_body(at, self._put, events)
        if self._skip_line:
            return self._leave_line(at)
        return self._take_line(at, events)

    def _take_line(self, at: int, events: list[Event]) -> int | None:
        end = self._buffer.find(_END, at, at + LONGEST_LINE)
        if end < 0:
            if len(self._buffer) - at < LONGEST_LINE:
                return None
            events.append(Refused(BAD_FORMAT))
            self._skip_line = True
            return at
        line = bytes(self._buffer[at:end])
        if line.startswith(b"put "):
            self._begin_put(line[4:], events)
        else:
            events.append(read_command(line))
            self._over = isinstance(events[-1], Quit)
        return end + 2

    def _leave_line(self, at: int) -> int | None:
        end = self._buffer.find(_END, at)
        if end < 0:
            # The last byte may be the first half of the line's end.
            return max(at, len(self._buffer) - 1) if len(self._buffer) > at + 1 else None
        self._skip_line = False
        return end + 2

    def _begin_put(self, words: bytes, events: list[Event]) -> None:
        given = [word for word in words.split(b" ") if word]
        if len(given) < 4 or not given[3].isdigit() or (size := int(given[3])) > MOST_PRIORITY:
            events.append(Refused(BAD_FORMAT, over=True, put=True))
            self._over = True
            return
        try:
            priority, delay, ttr, _ = _numbers(words, 4)
        except Malformed:
            self._refuse_put(BAD_FORMAT, size, events)
            return
        if size > self._largest:
            self._refuse_put(JOB_TOO_BIG, size, events)
            return
        self._put = (priority, delay, ttr, size)
        if size > self._inline:
            events.append(PutBegun(priority, delay, ttr, size))
            self._left = size

    def _refuse_put(self, reply: bytes, size: int, events: list[Event]) -> None:
        events.append(Refused(reply, put=True))
        self._left, self._skip = size + len(_END), True

    def _take_body(self, at: int, put: tuple[int, int, int, int], events: list[Event]) -> int | None:
        """The body of a put, or what is behind one that was handed on."""
        priority, delay, ttr, size = put
        begun = size > self._inline
        end = at if begun else at + size
        behind = end + len(_END)
        if len(self._buffer) < behind:
            return None
        self._put = None
        whole = self._buffer[end:behind] == _END
        if begun:
            events.append(PutEnded(whole))
        if not whole:
            events.append(Refused(EXPECTED_CRLF, put=True))
            self._skip_line = True
            return end
        if not begun:
            events.append(Put(priority, delay, ttr, bytes(self._buffer[at:end])))
        return behind

    def _pass_on(self, at: int, events: list[Event]) -> int | None:
        size = min(self._left, len(self._buffer) - at)
        if not size:
            return None
        if not self._skip:
            events.append(PutPiece(bytes(self._buffer[at : at + size])))
        self._left -= size
        self._skip = self._skip and self._left > 0
        return at + size


def read_command(line: bytes) -> Command | Refused:
    """A line without its end, which is no put."""
    verb, space, rest = line.partition(b" ")
    try:
        if (read := _WITH_WORDS.get(verb)) is not None and space:
            return read(rest)
        if (plain := _ALONE.get(line)) is not None:
            return plain
    except Malformed:
        return Refused(BAD_FORMAT)
    # The original goes by how a line begins: whatever else is in it makes it a bad one, and not an unknown one.
    if line.startswith(b"quit"):
        return Quit()
    return Refused(BAD_FORMAT if line.startswith(_BEGINNINGS) else UNKNOWN_COMMAND)


def is_name(tube: bytes) -> bool:
    """May a tube be called that?"""
    return 0 < len(tube) <= LONGEST_NAME and not tube.startswith(b"-") and _NAME.issuperset(tube)


def _name(rest: bytes) -> str:
    if not is_name(rest):
        raise Malformed
    return rest.decode()


def _numbers(rest: bytes, count: int, most: int = MOST_PRIORITY) -> list[int]:
    """So many numbers with blanks between them, and nothing behind the last."""
    words = [word for word in rest.split(b" ") if word]
    if len(words) != count or rest.endswith(b" ") or not all(word.isdigit() for word in words):
        raise Malformed
    numbers = [int(word) for word in words]
    if max(numbers) > most:
        raise Malformed
    return numbers


def _id(rest: bytes) -> int:
    return _numbers(rest, 1, MOST_ID)[0]


def _id_and(rest: bytes, count: int) -> list[int]:
    """A job's number and as many of the shorter sort."""
    job, *others = _numbers(rest, 1 + count, MOST_ID)
    if max(others) > MOST_PRIORITY:
        raise Malformed
    return [job, *others]


def _lenient(rest: bytes) -> int | None:
    """The number at the beginning, whatever follows it, as the original reads it here; None if there is none."""
    text = rest.lstrip(b" ")
    sign, digits = (-1, text[1:]) if text.startswith(b"-") else (1, text.removeprefix(b"+"))
    size = len(digits) - len(digits.lstrip(b"0123456789"))
    if not size:
        return None
    number = int(digits[:size])
    if number > _MOST_LONG:
        raise Malformed
    return sign * number


def _read_reserve(rest: bytes) -> Reserve:
    seconds = _lenient(rest) or 0
    return Reserve(seconds if seconds >= 0 else None, asked=True)


def _read_kick(rest: bytes) -> Kick:
    bound = _lenient(rest)
    if bound is None:
        raise Malformed
    return Kick(bound & _MOST_KICKED)


def _read_pause(rest: bytes) -> PauseTube:
    name, _, delay = rest.lstrip(b" ").partition(b" ")
    return PauseTube(_name(name), _numbers(delay, 1)[0])


_WITH_WORDS: Final[dict[bytes, Callable[[bytes], Command]]] = {
    b"use": lambda rest: Use(_name(rest)),
    b"reserve-with-timeout": _read_reserve,
    b"reserve-job": lambda rest: ReserveJob(_id(rest)),
    b"delete": lambda rest: Delete(_id(rest)),
    b"release": lambda rest: Release(*_id_and(rest, 2)),
    b"bury": lambda rest: Bury(*_id_and(rest, 1)),
    b"touch": lambda rest: Touch(_id(rest)),
    b"watch": lambda rest: Watch(_name(rest)),
    b"ignore": lambda rest: Ignore(_name(rest)),
    b"peek": lambda rest: Peek(_id(rest)),
    b"kick": _read_kick,
    b"kick-job": lambda rest: KickJob(_id(rest)),
    b"stats-job": lambda rest: StatsJob(_id(rest)),
    b"stats-tube": lambda rest: StatsTube(_name(rest)),
    b"pause-tube": _read_pause,
}

_ALONE: Final[dict[bytes, Command]] = {
    b"reserve": Reserve(),
    b"peek-ready": PeekReady(),
    b"peek-delayed": PeekDelayed(),
    b"peek-buried": PeekBuried(),
    b"stats": Stats(),
    b"list-tubes": ListTubes(),
    b"list-tube-used": ListTubeUsed(),
    b"list-tubes-watched": ListTubesWatched(),
    b"quit": Quit(),
}

_BEGINNINGS: Final = (*_ALONE, b"pause-tube")
