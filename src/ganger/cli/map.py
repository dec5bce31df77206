"""`ganger map`: a command for each of many items, in the manner of xargs."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.bars import show_count, show_storing
from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.printing import clean, cut, print_json, tell
from ganger.cli.wait import FAILED_EXIT, HELD_EXIT
from ganger.cli.words import say_status
from ganger.cli.work import PLAIN, take_each_running, take_priority
from ganger.core.ids import TaskId
from ganger.core.state import Status, is_final

if TYPE_CHECKING:
    from ganger.core.task import NewTask
    from ganger.engine.engine import Engine

_TICK = 0.25
_WINDOW = 1_000
"""So many of the first that have not ended are watched at once: tasks run in about the order of their ids."""

_TOLD = 20
_LONGEST_COMMAND = 60

Ends = Mapping[TaskId, int | None]
"""How each ended; None if somebody removed it."""


@click.command("map", context_settings={"allow_interspersed_args": False})
@take_store
@take_json
@click.option("--queue", default="default", metavar="QUEUE", show_default=True, help="The queue.")
@click.option("-k", "--keep-going", is_flag=True, help="Go on after a failure (default: cancel what still waits).")
@click.option("-o", "--output", is_flag=True, help="Print at the end what they wrote, in the order of the items.")
@click.option("-0", "--null", is_flag=True, help="Items on standard input end with NUL, not with a line.")
@take_priority
@take_each_running
@click.argument("template", metavar="COMMAND")
@click.argument("items", nargs=-1, type=click.UNPROCESSED, metavar="[ITEM]...")
def map_items(store: str | None, as_json: bool, template: str, items: tuple[str, ...], **given: Any) -> None:
    """Run a command for each item: ganger map [options] 'convert {} {.}.png' *.jpg

    In the command, {} is the item, {.} the item without its ending, {/} without its folders, {#} its number. A command
    without any gets the item at its end. There is no shell: an item stays one word, whatever is in it. Without items
    the lines of standard input are taken. Exits with 1 if a task did not succeed, and with 4 if all that is left is
    held: see `ganger why`, then `ganger kick` or `ganger cancel`.
    """
    _refuse_unquoted(template, items)
    commands = _make_commands(template, items or _read_items(given["null"]))
    if not commands:
        tell("no items: nothing to do")
        return
    ends = run_engine(store, lambda engine: _map(engine, template, commands, given), makes=True)
    _print(ends, as_json)
    if Status.HELD in ends.values():
        sys.exit(HELD_EXIT)
    if any(status != Status.SUCCEEDED for status in ends.values()):
        sys.exit(FAILED_EXIT)


def _refuse_unquoted(template: str, items: Sequence[str]) -> None:
    """Whoever is used to xargs writes the command as words, and its places would be taken for items."""
    from ganger.cli.templates import has_place

    if not has_place(template) and any(map(has_place, items)):
        raise click.UsageError("the command is one argument: ganger map 'convert {} {.}.png' *.jpg")


def _make_commands(template: str, items: Sequence[str]) -> list[list[str]]:
    from ganger.cli.templates import fill, find_shell_words, split_template

    words = split_template(template)
    if odd := find_shell_words(words):
        what = "is a plain word" if len(odd) == 1 else "are plain words"
        tell(f"ganger: {' '.join(odd)} {what} here, because no shell reads the command; for one use bash -c")
    return [fill(words, item, number) for number, item in enumerate(items, 1)]


def _read_items(null: bool) -> list[str]:
    import os

    if sys.stdin.isatty():
        raise click.UsageError("give items, or lines on standard input")
    body = sys.stdin.buffer.read()
    return [os.fsdecode(item) for item in (body.split(b"\0") if null else body.splitlines()) if item]


async def _map(engine: "Engine", title: str, commands: list[list[str]], given: dict[str, Any]) -> Ends:
    from ganger.cli.tasks import find_queue

    queue = await find_queue(engine, given["queue"])
    with show_storing(len(commands)):
        group, *ids = (await engine.submit(_make(title, commands, given, int(queue.id)))).ids
    tell(f"{_count(ids)} in group {group}; if you leave, work goes on: `ganger cancel {group}` ends it")
    if not any(node.here for node in await engine.nodes.all()):
        tell("waiting: no node is here; start one with `ganger up` in another terminal")
    ends = await _wait(engine, ids, given["keep_going"])
    for task in ids if given["output"] else ():
        await _copy(engine, task, ends[task])
    await _tell_failures(engine, dict(zip(ids, commands, strict=True)), ends)
    return ends


def _make(title: str, commands: list[list[str]], given: dict[str, Any], queue: int) -> "list[NewTask]":
    """The group, and a member for each command."""
    from ganger.cli.submit import make_command
    from ganger.cli.tasks import Wish, make_task

    group = make_task(Wish(description=title), queue, {})
    tasks = [make_command({**PLAIN, **given, "command": command}, queue) for command in commands]
    return [group, *(task._replace(group=-1) for task in tasks)]


async def _wait(engine: "Engine", ids: Sequence[TaskId], keep_going: bool) -> Ends:
    """How all ended, in their order. After a failure those that wait are cancelled, and those that run may finish.

    Held ones are given up when nothing else is left.
    """
    ends: dict[TaskId, int | None] = {}
    left = list(ids)
    with show_count("running", len(ids)) as seen:
        while left:
            window = left[:_WINDOW]
            statuses = dict(zip(window, (await engine.wait(window, _TICK)).statuses, strict=True))
            new = {task: status for task, status in statuses.items() if _rests(status)}
            ends |= new
            seen(sum(status != Status.HELD for status in ends.values()))
            if not keep_going and any(status not in (Status.SUCCEEDED, Status.HELD) for status in new.values()):
                await _cancel_rest(engine, ids, ends)
                keep_going = True
            left = [task for task in window if task not in new] + left[_WINDOW:] or await _find_kicked(engine, ends)
    return {task: ends[task] for task in ids}


async def _cancel_rest(engine: "Engine", ids: Sequence[TaskId], ends: Ends) -> None:
    rest = [task for task in ids if ends.get(task, Status.HELD) == Status.HELD]
    if rest:
        await engine.cancel(rest, by=name_operator())


def _rests(status: int | None) -> bool:
    return status is None or is_final(status) or status == Status.HELD


async def _find_kicked(engine: "Engine", ends: Ends) -> list[TaskId]:
    """Those that were held when they were looked at, and are not any more."""
    held = [task for task, status in ends.items() if status == Status.HELD]
    found = await engine.tasks(held)
    return [task for task, now in zip(held, found, strict=True) if now is None or now.status != Status.HELD]


async def _copy(engine: "Engine", task: TaskId, status: int | None) -> None:
    from ganger.cli.logs import copy_output

    if status is not None:
        await copy_output(engine, task, None, None)


async def _tell_failures(engine: "Engine", commands: Mapping[TaskId, list[str]], ends: Ends) -> None:
    """Those that failed by themselves; what was cancelled because of them is only counted."""
    import shlex

    failed = [task for task, status in ends.items() if status not in {Status.SUCCEEDED, Status.CANCELLED}]
    for task, seen in zip(failed[:_TOLD], await engine.tasks(failed[:_TOLD]), strict=True):
        command = cut(clean(shlex.join(commands[task])), _LONGEST_COMMAND)
        reason = clean(seen.reason) if seen is not None and seen.reason else "see `ganger logs`"
        tell(f"task {task} {_say(ends[task])}: {command}: {reason}")
    if len(failed) > _TOLD:
        tell(f"and {len(failed) - _TOLD} more")


def _count(tasks: Sized) -> str:
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"


def _say(status: int | None) -> str:
    return "removed" if status is None else say_status(status)


def _print(ends: Ends, as_json: bool) -> None:
    from ganger.cli.views import say_word

    for task, status in ends.items() if as_json else ():
        print_json({"id": task, "status": None if status is None else say_word(status), "code": status})
    counts = Counter("removed" if status is None else say_word(status) for status in ends.values())
    tell(f"{_count(ends)}: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
