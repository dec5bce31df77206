"""What a client did and what it was told, written down so that no crash of either side can forget it.

A call is on disk before it is made and its outcome before the next step builds on it, so after any fault the history
knows all that was ever sent and all that was ever acknowledged. Each client writes a file of its own; a client that is
killed while it writes leaves one torn line at the end, which reads as never written. A call without an outcome is
*unknown*, and so is one that timed out: unknown is not failed.

The audit sets the histories against what the store holds. Of its sets, *recovered* is innocent (an unknown submit that
did happen) and the others are not.
"""

import enum
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

Key = str | int


class Outcome(enum.Enum):
    OK = "ok"
    FAIL = "fail"
    """Refused: it certainly did not happen."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of one client."""

    client: str
    op: str
    keys: tuple[Key, ...]
    called: int
    returned: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    args: Any = None
    result: Any = None


class _Called(msgspec.Struct, frozen=True, tag_field="line", tag="called"):
    number: int
    at: int
    op: str
    keys: tuple[Key, ...]
    args: Any = None


class _Returned(msgspec.Struct, frozen=True, tag_field="line", tag="returned"):
    number: int
    at: int
    outcome: Outcome
    result: Any = None


@dataclass(slots=True)
class Pending:
    """A call under way: say its outcome with `ok` or `fail`, or leave it unknown."""

    number: int
    outcome: Outcome = Outcome.UNKNOWN
    result: Any = None

    def ok(self, result: Any = None) -> None:
        self.outcome, self.result = Outcome.OK, result

    def fail(self, result: Any = None) -> None:
        self.outcome, self.result = Outcome.FAIL, result


class History:
    """The history of one client: a new file of JSON lines, each synced when it is written. Safe from threads.

    `tick` gives the time of an entry: any integer that grows, comparable between the clients of one run.
    """

    def __init__(self, path: Path, tick: Callable[[], int]) -> None:
        self._tick = tick
        self._lock = threading.Lock()
        self._number = 0
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        _sync_folder(path.parent)

    @contextmanager
    def record(self, op: str, *keys: Key, args: Any = None) -> Iterator[Pending]:
        """Note a call, let it be made, note what came of it; an exception that passes through leaves it unknown."""
        call = self.called(op, *keys, args=args)
        try:
            yield call
        finally:
            self.returned(call)

    def called(self, op: str, *keys: Key, args: Any = None) -> Pending:
        with self._lock:
            self._number += 1
            self._append(_Called(self._number, self._tick(), op, keys, args))
            return Pending(self._number)

    def returned(self, call: Pending) -> None:
        with self._lock:
            self._append(_Returned(call.number, self._tick(), call.outcome, call.result))

    def close(self) -> None:
        os.close(self._file)

    def _append(self, line: _Called | _Returned) -> None:
        data = msgspec.json.encode(line) + b"\n"
        written = os.write(self._file, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes of the history were written")
        os.fsync(self._file)


def read_history(path: Path) -> tuple[Entry, ...]:
    """The entries of one client in the order of their calls; the client is named after the file."""
    calls: dict[int, _Called] = {}
    returns: dict[int, _Returned] = {}
    for line in _read_lines(path):
        if isinstance(line, _Called):
            calls[line.number] = line
        else:
            returns[line.number] = line
    return tuple(_join(path.stem, call, returns.get(call.number)) for call in calls.values())


def _read_lines(path: Path) -> Iterator[_Called | _Returned]:
    decoder: msgspec.json.Decoder[_Called | _Returned] = msgspec.json.Decoder(_Called | _Returned)
    *whole, _torn = path.read_bytes().split(b"\n")
    yield from map(decoder.decode, whole)


def _join(client: str, call: _Called, back: _Returned | None) -> Entry:
    entry = Entry(client, call.op, call.keys, call.at, args=call.args)
    if back is None:
        return entry
    # Nobody may conclude from the end of a wait that an unknown operation has ended too.
    returned = None if back.outcome is Outcome.UNKNOWN else back.at
    return Entry(client, call.op, call.keys, call.at, returned, back.outcome, call.args, back.result)


@dataclass(frozen=True, slots=True)
class Books:
    """What the clients were told against what is there."""

    sent: frozenset[Key]
    acknowledged: frozenset[Key]
    present: frozenset[Key]
    lost: frozenset[Key]
    """Acknowledged, and absent."""

    unexpected: frozenset[Key]
    """Present, though never sent, or refused each time it was sent."""

    duplicated: frozenset[Key]
    """Present more than once."""

    recovered: frozenset[Key]
    """Present, never acknowledged, and unknown at least once: this is allowed."""

    runs: Mapping[Key, int] = field(default_factory=dict)
    """How often each was begun by a worker; a key that never ran is absent."""

    @property
    def balanced(self) -> bool:
        return not (self.lost or self.unexpected or self.duplicated)

    @property
    def ran_again(self) -> frozenset[Key]:
        return frozenset(key for key, times in self.runs.items() if times > 1)

    def __str__(self) -> str:
        names = ("sent", "acknowledged", "present", "recovered", "ran_again", "duplicated", "unexpected", "lost")
        return "\n".join(_row(name, getattr(self, name)) for name in names)


def audit(
    histories: Iterable[Sequence[Entry]], present: Iterable[Key], *, submit: str = "submit", run: str = "run"
) -> Books:
    """Balance the histories of all clients against the keys that the store holds, each as often as it holds it.

    `submit` and `run` name the operations that create a task and that begin an execution of it.
    """
    entries = [entry for history in histories for entry in history]
    held = Counter(present)
    there = frozenset(held)
    told = {outcome: _keys(entries, submit, outcome) for outcome in Outcome}
    acknowledged = told[Outcome.OK]
    maybe = told[Outcome.UNKNOWN] - acknowledged
    return Books(
        sent=frozenset().union(*told.values()),
        acknowledged=acknowledged,
        present=there,
        lost=acknowledged - there,
        unexpected=there - acknowledged - maybe,
        duplicated=frozenset(key for key, times in held.items() if times > 1),
        recovered=maybe & there,
        runs=Counter(key for entry in entries if entry.op == run for key in entry.keys),
    )


def _keys(entries: Iterable[Entry], op: str, outcome: Outcome) -> frozenset[Key]:
    return frozenset(key for entry in entries if entry.op == op and entry.outcome is outcome for key in entry.keys)


def _row(name: str, keys: frozenset[Key]) -> str:
    shown = sorted(keys, key=str)[:5] if name in ("ran_again", "duplicated", "unexpected", "lost") else []
    more = " ..." if shown and len(keys) > len(shown) else ""
    return f"{name.replace('_', ' '):<14}{len(keys):>9}  {', '.join(map(str, shown))}{more}".rstrip()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
