"""`ganger stats`: how many tasks there are, by queue and status."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ganger.cli.opening import take_json, take_store, view_engine
from ganger.cli.printing import cut, print_json, print_table, tell
from ganger.core.state import ENDED_UNFINISHED, Status

if TYPE_CHECKING:
    from ganger.cli.views import Names
    from ganger.core.queue import Counts
    from ganger.engine.engine import Engine
    from ganger.engine.view import View

COLUMNS = ("QUEUE", "WAIT", "HELD", "CLAIMED", "RUN", "DONE", "FAIL", "ENDED", "TOTAL")
_LONGEST_QUEUE = 32


@click.command()
@take_store
@take_json
def stats(store: str | None, as_json: bool) -> None:
    """Count the tasks of each queue.

    CLAIMED are those that a node has and has not begun, ENDED those that were cancelled, killed or lost.
    """

    async def read(engine: "Engine | View") -> "tuple[list[Counts], Mapping[int, dict[str, int]], Names]":
        from ganger.cli.views import name_queues

        counts, told = await engine.counts()
        return counts, {int(queue): facts for queue, facts in told.items()}, await name_queues(engine)

    counts, told, names = view_engine(store, read)
    if as_json:
        for each in counts:
            print_json(_view(each, names, told.get(int(each.queue), {})))
    elif counts:
        print_table(COLUMNS, [count_row(names.get(each.queue, str(each.queue)), each.by_status) for each in counts])
    else:
        tell("no queues yet: the first `ganger submit` makes one")


def _view(counts: "Counts", names: "Names", told: Mapping[str, int]) -> dict[str, object]:
    from ganger.cli.words import say_status

    return {
        "queue": names.get(counts.queue),
        "queue_id": counts.queue,
        "total": counts.total,
        "todo": counts.todo,
        "statuses": {say_status(code): n for code, n in sorted(counts.by_status.items())},
        "facts": dict(told),
    }


def count_row(name: str, by: Mapping[int, int]) -> Sequence[str]:
    def add(*codes: int) -> int:
        return sum(by.get(code, 0) for code in codes)

    waiting = add(Status.QUEUED, Status.DELAYED, Status.BLOCKED)
    failed = sum(n for code, n in by.items() if code >= Status.FAILED)
    numbers = (
        waiting, add(Status.HELD), add(Status.CLAIMED), add(Status.RUNNING),
        add(Status.SUCCEEDED), failed, add(*ENDED_UNFINISHED), sum(by.values()),
    )  # fmt: skip
    return cut(name, _LONGEST_QUEUE), *map(str, numbers)
