"""The tables of a live view: queues, nodes, and tasks. Each column says one thing."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganger.cli import nodes, stats
from ganger.cli.board import CHOICES
from ganger.cli.colours import paint_failures, paint_status
from ganger.cli.ls import say_took
from ganger.cli.nodes import node_row
from ganger.cli.printing import Painter, lay_out
from ganger.cli.stats import count_row
from ganger.cli.titles import title_tasks
from ganger.cli.views import Names, name_queues
from ganger.cli.words import say_length, say_status
from ganger.core.state import LEASED, Status
from ganger.core.task import is_inner
from ganger.engine.store import Query
from ganger.runtime.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from ganger.core.ids import TaskId
    from ganger.core.node import Node
    from ganger.core.queue import Counts
    from ganger.core.task import Task
    from ganger.engine.engine import Engine

_LOOKED_AT: Final = 1_000
"""So many tasks are read to be sorted; of more the newest."""

_RUNNING: Final = ("ID", "FOR", "PROGRESS", "NODE", "QUEUE", "TASK")
_CLAIMED: Final = ("ID", "AGE", "NODE", "QUEUE", "TASK")
_OTHERS: Final = ("ID", "STATUS", "AGE", "TOOK", "QUEUE", "TASK")
PAINT: Final[Mapping[str, Painter]] = {"STATUS": paint_status, "STATE": paint_status, "FAIL": paint_failures}


class Part(NamedTuple):
    """One of the tables; `more` rows are not in it. `tasks` are those of its rows, where rows are tasks."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0
    tasks: "Sequence[TaskId]" = ()


class Order(NamedTuple):
    """Which tasks are listed, and how they are sorted."""

    choice: str = "running"
    sort: str = "newest"
    reverse: bool = False


PLAIN: Final = Order()


async def read_parts(engine: "Engine", room: int, order: Order = PLAIN) -> list[Part]:
    """Queues, nodes, and tasks in one or more tables, in so many rows altogether: tasks get what the others leave."""
    counts, _ = await engine.counts()
    here = [node for node in await engine.nodes.all() if node.here]
    names = _Names({int(node.id): node.name for node in here}, await name_queues(engine))
    queues = _queues(names.queues, counts, max(1, room // 3))
    nodes = await _nodes(engine, here, max(1, room // 3))
    left = max(1, room - len(queues.rows) - len(nodes.rows))
    return [queues, nodes, *await _Lists(engine, counts, names, order).read(left)]


def _queues(names: Names, counts: "Sequence[Counts]", most: int) -> Part:
    """Those where most runs come first, then those with most left to do."""
    chosen = sorted(counts, key=lambda each: (-_count(each, LEASED), -each.todo))[:most]
    rows = [count_row(names.get(each.queue, str(each.queue)), each.by_status) for each in chosen]
    return Part("queues", stats.COLUMNS, rows, len(counts) - len(rows))


async def _nodes(engine: "Engine", here: "Sequence[Node]", most: int) -> Part:
    in_hand = await engine.nodes.in_hand(here[:most])
    rows = [node_row(node, in_hand[node.id]) for node in here[:most]]
    return Part("nodes", nodes.COLUMNS, rows, max(0, len(here) - most))


class _Names(NamedTuple):
    nodes: Mapping[int, str]
    queues: Names

    def node(self, task: "Task") -> str:
        return self.nodes.get(int(task.holder or 0), "-")

    def queue(self, task: "Task") -> str:
        return self.queues.get(task.queue, str(task.queue))


class _Lists(NamedTuple):
    """The tables of tasks: what runs and, apart from it, what a node has claimed and not begun; or others."""

    engine: "Engine"
    counts: "Sequence[Counts]"
    names: _Names
    order: Order

    async def read(self, most: int) -> list[Part]:
        if self.order.choice != "running":
            return [await self._read(self.order.choice, CHOICES[self.order.choice], _OTHERS, most)]
        runs = await self._read("running", (Status.RUNNING,), _RUNNING, most)
        return [
            runs,
            await self._read(
                "claimed by a node, not begun", (Status.CLAIMED,), _CLAIMED, max(1, most - len(runs.rows))
            ),
        ]

    async def _read(self, title: str, statuses: Sequence[int], columns: Sequence[str], most: int) -> Part:
        now = SystemClock().wall()
        found = [task for task in await self._find(statuses) if not is_inner(task)]
        chosen = sorted(found, key=self._key(now), reverse=self.order.reverse)[:most]
        titles = await title_tasks(self.engine, chosen)
        rows = [(*_row(columns, task, self.names, now), titles[task.id]) for task in chosen]
        total = sum(_count(each, statuses) for each in self.counts)
        more = (total if total > _LOOKED_AT else len(found)) - len(rows)
        return Part(title, columns, rows, max(0, more), [task.id for task in chosen])

    async def _find(self, statuses: Sequence[int]) -> "list[Task]":
        """The newest tasks of these statuses; a failure may have a code of its own."""
        wanted = set(map(int, statuses))
        if Status.FAILED in wanted:
            wanted |= {code for each in self.counts for code in each.by_status if code > Status.FAILED}
        query = Query(statuses=tuple(sorted(wanted)), most=_LOOKED_AT, newest_first=True)
        return (await self.engine.find(query)).tasks

    def _key(self, now: int) -> "Callable[[Task], Any]":
        """What to sort by; tasks that are alike come newest first."""

        def took(task: "Task") -> int:
            return 0 if task.started is None else (task.ended or now) - task.started

        return {
            "newest": lambda task: -task.id,
            "longest": lambda task: (-took(task), -task.id),
            "queue": lambda task: (self.names.queue(task), -task.id),
            "node": lambda task: (self.names.node(task), -task.id),
        }[self.order.sort]


def _count(counts: "Counts", statuses: Sequence[int] | frozenset[Status]) -> int:
    failed = Status.FAILED in statuses
    by = counts.by_status
    return sum(n for code, n in by.items() if code in statuses or (failed and code > Status.FAILED))


def _row(columns: Sequence[str], task: "Task", names: _Names, now: int) -> tuple[str, ...]:
    """The cells of all columns but the last, which is the title."""
    return tuple(_CELLS[column](task, names, now) for column in columns[:-1])


def _say_progress(task: "Task") -> str:
    percent = "" if task.percent is None else f"{task.percent:.0f}%"
    return " ".join(filter(None, (percent, task.info))) or "-"


_CELLS: "Final[Mapping[str, Callable[[Task, _Names, int], str]]]" = {
    "ID": lambda task, _, __: str(task.id),
    "STATUS": lambda task, _, __: say_status(task.status),
    "AGE": lambda task, _, now: say_length(now - task.created),
    "TOOK": lambda task, _, now: say_took(task, now),
    "FOR": lambda task, _, now: say_took(task, now),
    "PROGRESS": lambda task, _, __: _say_progress(task),
    "NODE": lambda task, names, _: names.node(task),
    "QUEUE": lambda task, names, _: names.queue(task),
}


def draw_parts(parts: Sequence[Part], wide: int, chosen: "TaskId | None" = None) -> "Group":
    """Those that have rows, each with an empty line behind it; the row of the chosen task is set off."""
    from rich.console import Group

    return Group(*(line for part in parts if part.rows for line in _draw(part, wide, chosen)))


def _draw(part: Part, wide: int, chosen: "TaskId | None") -> "list[Text]":
    from rich.text import Text

    title = Text(part.title if not part.more else f"{part.title}, and {part.more} more", style="dim")
    heading, *lines = [Text.from_ansi(line) for line in lay_out(part.columns, part.rows, wide, **PAINT)]
    heading.stylize("bold")
    for task, line in zip(part.tasks, lines, strict=False):
        if task == chosen:
            line.stylize("reverse")
    return [title, heading, *lines, Text("")]
