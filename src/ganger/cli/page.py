"""One task on the whole screen: all about it, what keeps it, and the end of what it has written so far."""

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, Self

from ganger.cli.printing import clean, clean_lines
from ganger.core.errors import GangerError

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine

_KEPT: Final = 1 << 16
_SHOWN_LINES: Final = 200


class Page:
    """Reads a task again and again, and follows its output meanwhile."""

    def __init__(self, engine: "Engine", task: "TaskId") -> None:
        self.task = task
        self._engine = engine
        self._written = bytearray()
        self._following = asyncio.ensure_future(self._follow())

    @classmethod
    async def turn(cls, old: Self | None, engine: "Engine", task: "TaskId | None") -> "Page | None":
        """The page of this task: the old one if it is that."""
        if old is not None and old.task == task:
            return old
        if old is not None:
            await old.close()
        return None if task is None else cls(engine, task)

    async def close(self) -> None:
        self._following.cancel()
        with suppress(asyncio.CancelledError, GangerError):
            await self._following

    async def _follow(self) -> None:
        from ganger.engine.live import SAID

        async with aclosing(self._engine.follow_output(self.task, SAID)) as pieces:
            async for piece in pieces:
                self._written += piece.body
                del self._written[:-_KEPT]

    async def read(self) -> list[str]:
        """The lines of the page."""
        from ganger.cli.show import describe
        from ganger.cli.why import say_reasons

        try:
            pairs, told = await describe(self._engine, self.task)
            reasons = say_reasons(self.task, await self._engine.explain(self.task))
        except GangerError as error:
            return [clean(error.message)]
        wide = max(map(len, pairs), default=0)
        lines = [f"{name:<{wide}}  {value}" for name, value in pairs.items()]
        lines += ["", *reasons]
        for heading, text in told.items():
            lines += ["", heading, *(f"  {line}" for line in text.split("\n"))]
        return lines + self._say_output()

    def _say_output(self) -> list[str]:
        text = clean_lines(self._written.decode("utf-8", "replace").rstrip("\n"))
        return ["", "output", *(f"  {line}" for line in text.split("\n")[-_SHOWN_LINES:])] if text else []
