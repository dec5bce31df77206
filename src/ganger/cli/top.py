"""`ganger top`: queues, nodes and tasks, live on the whole screen, with keys to look into a task and to act on it."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from ganger.cli.board import ACTS, HELP, HELP_OPEN, SORTS, Board, press
from ganger.cli.opening import name_operator, run_engine, take_store
from ganger.cli.printing import cut, print_table
from ganger.cli.words import say_second

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Group, RenderableType
    from rich.live import Live
    from rich.text import Text

    from ganger.cli.page import Page
    from ganger.cli.parts import Part
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine

_REFRESH: Final = 1.0
_FIRST: Final = 1_000
_FRAME: Final = 15
"""Lines that are no rows: two at the top with a space, and of each part the title, the heading and a space."""

_PAST: Final = {"kill": "is being killed", "cancel": "is cancelled", "hold": "is held", "kick": "is ready again"}


@click.command()
@take_store
def top(store: str | None) -> None:
    """Watch queues, nodes and tasks on the whole screen, look into a task and act on it; q or Ctrl-C ends it.

    ↑ and ↓ choose a task and Enter shows all about it, with what it writes. Tab lists running, waiting, held or ended
    tasks, s sorts them, r turns the order. K kills the task, C cancels, H holds, G kicks, R retries it, after a y.
    Where the output is no terminal it is printed once.
    """
    run_engine(store, _watch if sys.stdout.isatty() else _print)


async def _print(engine: "Engine") -> None:
    from ganger.cli.parts import PAINT, read_parts

    for index, part in enumerate(part for part in await read_parts(engine, _FIRST) if part.rows):
        if index:
            click.echo()
        click.echo(part.title)
        print_table(part.columns, part.rows, **PAINT)


async def _watch(engine: "Engine") -> None:
    from rich.live import Live

    from ganger.cli.keys import heed_keys

    with Live(screen=True, auto_refresh=False) as live:
        screen = _Screen(engine, live)
        with heed_keys(screen.press):
            await screen.run()


class _Screen:
    """Draws the board after each key, and each second."""

    def __init__(self, engine: "Engine", live: "Live") -> None:
        import asyncio

        self._engine = engine
        self._live = live
        self._board = Board()
        self._listed: list[TaskId] = []
        self._page: Page | None = None
        self._pressed: asyncio.Event = asyncio.Event()

    def press(self, key: str) -> None:
        self._board = press(self._board, key, self._listed)
        self._pressed.set()

    async def run(self) -> None:
        import asyncio

        from ganger.cli.page import Page

        while not self._board.over:
            self._pressed.clear()
            await self._act()
            self._page = await Page.turn(self._page, self._engine, self._board.opened)
            self._live.update(await self._draw(), refresh=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH):
                    await self._pressed.wait()
        await Page.turn(self._page, self._engine, None)

    async def _act(self) -> None:
        board = self._board
        if board.act is None or board.about is None:
            return
        said = await act_on(self._engine, board.act, board.about)
        self._board = self._board._replace(act=None, said=said)

    async def _draw(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        from ganger.cli.parts import Order, read_parts

        size = self._live.console.size
        if self._page is not None:
            lines = await self._page.read()
            room = max(1, size.height - 4)
            start = min(self._board.scrolled, max(0, len(lines) - room))
            body = Group(*(Text(cut(line, size.width)) for line in lines[start : start + room]))
            return Group(*self._head(size.width), Text(""), body)
        order = Order(self._board.choice, self._board.sort, self._board.reverse)
        parts = await read_parts(self._engine, max(3, size.height - _FRAME), order)
        self._listed = [task for part in parts for task in part.tasks]
        return Group(*self._head(size.width), Text(""), self._draw_parts(parts, size.width))

    def _draw_parts(self, parts: "list[Part]", wide: int) -> "Group":
        from rich.console import Group
        from rich.text import Text

        from ganger.cli.parts import draw_parts

        if not any(part.rows for part in parts):
            return Group(Text("nothing here yet"))
        drawn = draw_parts(parts, wide, self._board.chosen)
        empty = not any(part.tasks for part in parts)
        return Group(drawn, Text(f"no task is {self._board.choice}", style="dim")) if empty else drawn

    def _head(self, wide: int) -> "list[Text]":
        """What is shown, asked or said, and the keys."""
        from rich.text import Text

        from ganger.runtime.clock import SystemClock

        board = self._board
        first = Text(f"ganger   {say_second(SystemClock().wall())}   {self._say_shown()}")
        if board.asked is not None:
            first = Text(f"{board.asked} task {board.about}? y does it, any other key does not", style="bold reverse")
        elif board.said:
            first = Text(board.said, style="bold")
        lines = (first, Text(HELP if board.opened is None else HELP_OPEN, style="dim"))
        for line in lines:
            line.truncate(wide, overflow="ellipsis")
        return list(lines)

    def _say_shown(self) -> str:
        board = self._board
        if board.opened is not None:
            return f"task {board.opened}"
        return f"{board.choice} tasks, {SORTS[board.sort]}{', reversed' if board.reverse else ''}"


async def act_on(engine: "Engine", act: str, task: "TaskId") -> str:
    """Do to the task what an operator asked for, and say what came of it."""
    from ganger.core.errors import GangerError

    try:
        if act == ACTS["R"]:
            return f"task {task} is tried again as task {await engine.retry_final(task, by=name_operator())}"
        moved = await getattr(engine, act)([task], by=name_operator())
    except GangerError as error:
        return f"{error.message} [{error.code}]"
    if moved.done:
        return f"task {task} {_PAST[act]}"
    (_, verdict), *_ = moved.refused
    return f"task {task} {_refusals(act).get(verdict, verdict)} [{verdict}]"


def _refusals(act: str) -> "Mapping[str, str]":
    """Why it cannot be done, as the command of that name says it."""
    from importlib import import_module

    refusals: Mapping[str, str] = import_module(f"ganger.cli.{act}").REFUSALS
    return refusals
