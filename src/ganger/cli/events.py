"""`ganger events`: what happened, and what happens."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import clean, clean_lines, cut, last_line, print_json, print_line
from ganger.cli.words import read_id, say_second, say_status
from ganger.core.event import Fact

if TYPE_CHECKING:
    from ganger.core.event import Entry, Event
    from ganger.engine.engine import Engine
    from ganger.engine.follow import Wanted

_LONGEST_QUEUE = 16
_SHOWN = 5
_PAGE = 1_000


@click.command()
@take_store
@take_json
@click.option("-f", "--follow", is_flag=True, help="Go on for ever (end it with Ctrl-C).")
@click.option("-n", "--most", type=click.IntRange(0, 100_000), default=20, show_default=True, help="The last so many.")
@click.option("--after", type=click.IntRange(0), help="All behind this position, in place of the last few.")
@click.option(
    "--fact", "facts", multiple=True, type=click.Choice([fact.value for fact in Fact]), metavar="FACT",
    help="Only this fact, as the third column says it; may be given several times.",
)  # fmt: skip
@click.option("--queue", help="Only about this queue.")
@click.option("--task", "tasks", type=read_id, multiple=True, metavar="ID", help="Only about this task.")
def events(store: str | None, as_json: bool, **given: Any) -> None:
    """Print events, one per line: position, time, fact, queue, tasks."""
    run_engine(store, lambda engine: _print_all(engine, as_json, given))


async def _print_all(engine: "Engine", as_json: bool, given: dict[str, Any]) -> None:
    from contextlib import aclosing

    from ganger.cli.views import name_queues

    names = await name_queues(engine)
    wanted = await _wanted(engine, given)
    last, position = await _begin(engine, given, wanted)
    async with aclosing(_walk(engine, position, last, wanted, given["follow"])) as found:
        async for event in found:
            if event.queue and event.queue not in names:
                names = await name_queues(engine)
            _print(event, names, as_json)


async def _wanted(engine: "Engine", given: dict[str, Any]) -> "Wanted":
    from ganger.cli.views import choose_queue
    from ganger.engine.follow import Wanted

    queue = given["queue"]
    return Wanted(
        frozenset(map(Fact, given["facts"])) or None,
        None if queue is None else frozenset({(await choose_queue(engine, queue)).id}),
        frozenset(given["tasks"]) or None,
    )


async def _begin(engine: "Engine", given: dict[str, Any], wanted: "Wanted") -> tuple[int, int]:
    """The last position there is, and the one behind which to begin.

    The last few of what is wanted are counted from a walk over all, because only that knows how many there are.
    """
    from collections import deque

    from ganger.engine.follow import EVERYTHING, find_end

    last = int(await find_end(engine.store))
    if given["after"] is not None:
        return last, given["after"]
    if wanted == EVERYTHING or not given["most"]:
        return last, max(0, last - given["most"])
    found = deque([int(event.position) async for event in _read(engine, 0, last, wanted)], given["most"])
    return last, found[0] - 1 if found else last


async def _walk(
    engine: "Engine", after: int, last: int, wanted: "Wanted", follow: bool
) -> "AsyncGenerator[Event, None]":
    async for event in _read(engine, after, last, wanted):
        yield event
    if follow:
        from ganger.core.ids import Position

        async for event in engine.subscribe(Position(max(after, last)), wanted):
            yield event


async def _read(engine: "Engine", after: int, last: int, wanted: "Wanted") -> "AsyncGenerator[Event, None]":
    """What is stored behind a position up to the last one."""
    from ganger.core.ids import Position
    from ganger.engine.follow import narrow

    while after < last and (page := await engine.store.events(Position(after), _PAGE)):
        after = int(page[-1].position)
        for event in page:
            if (seen := narrow(event, wanted)) is not None and event.position <= last:
                yield seen


def _print(event: "Event", names: Any, as_json: bool) -> None:
    from ganger.cli.views import view_event

    if as_json:
        print_json(view_event(event, names))
        return
    about = " ".join(filter(None, (_entries(event.entries), event.subject)))
    queue = cut(names.get(event.queue, "-"), _LONGEST_QUEUE)
    print_line(
        f"{event.position:>6}  {say_second(event.at)}  {event.fact:<13}  {clean(queue):<8}  {clean(about)}".rstrip()
    )
    for entry in event.entries[:_SHOWN]:
        if entry.reason and "\n" in entry.reason.strip():
            for line in clean_lines(entry.reason.strip("\n")).split("\n"):
                print_line(f"{'':>8}{line}")


def _entries(entries: "tuple[Entry, ...]") -> str:
    shown = [_entry(entry) for entry in entries[:_SHOWN]]
    return " ".join(shown) + (f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else "")


def _entry(entry: "Entry") -> str:
    return f"{entry.task}={say_status(entry.status)}" + (f" ({last_line(entry.reason)})" if entry.reason else "")
