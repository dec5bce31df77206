"""What was said and could not be kept: the data `cut` of a task, as its node writes it and as people are told it.

By the names of streams, how many bytes are missing at their ends; `why`, unless more was written than is kept of any
stream; and with that the `attempt`, because data stay when a task is tried again.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

KEY: Final = "cut"
FULL: Final = "the disk was full"
_WHY: Final = "why"
_ATTEMPT: Final = "attempt"
_CAP: Final = "more was written than is kept"


class Cut(NamedTuple):
    streams: Mapping[str, int]
    why: str = ""
    attempt: int = 0

    def concerns(self, attempt: int) -> bool:
        return self.attempt in (0, attempt)

    def say(self, streams: Iterable[str] | None = None) -> str:
        """A sentence about these streams, or about all; nothing if nothing of them is missing."""
        named = self.streams if streams is None else streams
        missing = [f"{self.streams[name]:,} bytes of {name}" for name in named if self.streams.get(name)]
        return f"cut: {self.why or _CAP}; {', '.join(missing)} not kept" if missing else ""


def write_cut(cut: Cut) -> bytes:
    beside = {_WHY: cut.why, _ATTEMPT: cut.attempt} if cut.why else {}
    return msgspec.json.encode({**cut.streams, **beside})


def read_cut(body: bytes) -> Cut:
    """As it was written; what is none says nothing."""
    try:
        told = msgspec.json.decode(body or b"{}", type=dict[str, int | str])
    except msgspec.DecodeError:
        return Cut({})
    why, attempt = told.pop(_WHY, ""), told.pop(_ATTEMPT, 0)
    streams = {name: size for name, size in told.items() if isinstance(size, int)}
    return Cut(streams, str(why), attempt if isinstance(attempt, int) else 0)


def add_cut(data: Mapping[str, bytes], streams: Mapping[str, int], why: str, attempt: int = 0) -> dict[str, bytes]:
    """The data of an attempt, and that this much more of its streams is missing."""
    if not streams:
        return dict(data)
    before = read_cut(data.get(KEY, b""))
    missing = {name: before.streams.get(name, 0) + streams.get(name, 0) for name in {**before.streams, **streams}}
    return {**data, KEY: write_cut(Cut(missing, why or before.why, attempt))}
