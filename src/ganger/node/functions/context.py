"""What a function may ask and say about the task that it is executing: `context.progress(40, "reticulating")`."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol

from ganger.core.ids import Fence, TaskId
from ganger.node.masking import mask_text


class Pen(Protocol):
    """Writes one stream of an attempt."""

    def write(self, text: str) -> object: ...


class Desk(Protocol):
    """Where a context's words go."""

    def open(self, context: "Context", stream: str) -> Pen:
        """A pen for a stream of this context, which is among its `tracks` from now on."""
        ...

    def say(self, seq: int, percent: float | None, info: str | None) -> None: ...

    def is_unwanted(self, seq: int) -> bool: ...


class Context:
    """One attempt, as its function sees it. `attempt` counts from 1. What it says is shown without the `masks`.

    `traceparent` is what an instrumented function continues, so that it is below the run of its attempt; None without
    traces.
    """

    __slots__ = ("_desk", "attempt", "fence", "masks", "seq", "task", "traceparent", "tracks")

    def __init__(
        self, desk: Desk, seq: int, task: int, fence: int, attempt: int, *, masks: Sequence[bytes] = (), trace: str = ""
    ) -> None:
        self._desk = desk
        self.seq = seq
        self.task = TaskId(task)
        self.fence = Fence(fence)
        self.attempt = attempt
        self.masks = masks
        self.traceparent = trace or None
        self.tracks: dict[str, Pen] = {}

    def progress(self, percent: float | None = None, info: str | None = None) -> None:
        """Say how far it is. Cheap: what is said faster than it can be told is told in its last form."""
        if percent is not None and not 0 <= percent <= 100:
            raise ValueError(f"percent is {percent}; give 0 to 100")
        self._desk.say(self.seq, percent, mask_text(info, self.masks) if info and self.masks else info)

    def log(self, text: str) -> None:
        """Add a line to the stream `log` of the task."""
        self.pen("log").write(text if text.endswith("\n") else f"{text}\n")

    def pen(self, stream: str) -> Pen:
        """What writes to a stream of this attempt."""
        return self.tracks.get(stream) or self._desk.open(self, stream)

    def cancelled(self) -> bool:
        """Is the task not wanted any more? Then return soon: after its grace the process is ended."""
        return self._desk.is_unwanted(self.seq)


CURRENT: Final[ContextVar[Context]] = ContextVar("ganger task")


def current() -> Context:
    """The context of the task that this thread or coroutine is executing; RuntimeError if there is none."""
    try:
        return CURRENT.get()
    except LookupError:
        raise RuntimeError("no task is executed here: only a function that a node executes has a context") from None


def task() -> TaskId:
    return current().task


def fence() -> Fence:
    return current().fence


def attempt() -> int:
    return current().attempt


def progress(percent: float | None = None, info: str | None = None) -> None:
    current().progress(percent, info)


def log(text: str) -> None:
    current().log(text)


def cancelled() -> bool:
    return current().cancelled()
