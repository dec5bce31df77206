"""`ganger show`: everything about one task."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import clean, clean_lines, last_line, print_block, print_json, print_pairs, print_table
from ganger.cli.words import find_task, read_name, say_duration, say_second, say_status, say_time
from ganger.core.state import Status

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.core.task import Attempt, Task
    from ganger.engine.engine import Engine
    from ganger.engine.store import Look

_SPEC_SHOWN = 65_536
_LONG = 10_000


@click.command()
@take_store
@take_json
@click.argument("task", type=read_name, metavar="ID")
def show(store: str | None, as_json: bool, task: "TaskId | str") -> None:
    """Show all that is known of a task: itself, its family, its attempts and its data.

    ID is a number, a key, or the GUID of a job.
    """

    async def look(engine: "Engine") -> Seen:
        return await _look(engine, await find_task(engine, task))

    seen = run_engine(store, look)
    if as_json:
        print_json(_view(seen))
    else:
        _print(seen)


class Seen(NamedTuple):
    """A task, and what the numbers in it are called; `node` is empty if nobody holds it."""

    look: "Look"
    queue: str
    node: str
    spec: str
    cut: str


async def _look(engine: "Engine", task: "TaskId") -> Seen:
    from ganger.cli.cuts import find_cut
    from ganger.cli.views import name_nodes, name_queues

    look = await engine.look(task)
    spec = (await engine.read_data(task, "spec", 0, _SPEC_SHOWN)).body.decode("utf-8", "replace")
    names, holder = await name_queues(engine), look.task.holder
    node = "" if holder is None else (await name_nodes(engine)).get(holder, str(holder))
    cut = (await find_cut(engine, look)).say()
    return Seen(look, names.get(look.task.queue, str(look.task.queue)), node, spec, cut)


def _view(seen: Seen) -> dict[str, Any]:
    from ganger.cli.views import view_task

    look = seen.look
    return {
        **view_task(look.task, {look.task.queue: seen.queue}),
        "node": seen.node or None,
        "spec": seen.spec,
        "parents": [{"task": parent, "on": on} for parent, on in look.family.parents],
        "children": [{"task": child, "on": on} for child, on in look.family.children],
        "history": [attempt._asdict() for attempt in look.attempts],
        "data": look.keys,
        "streams": look.streams,
        "cut": seen.cut or None,
    }


def _print(seen: Seen) -> None:
    pairs = _pair(seen)
    print_pairs(pairs)
    look = seen.look
    if look.attempts:
        click.echo()
        print_table(("ATTEMPT", "NODE", "STARTED", "TOOK", "OUTCOME"), [_attempt(each) for each in look.attempts])
    for heading, reason in _tracebacks(look).items():
        print_block(heading, reason)


async def describe(engine: "Engine", task: "TaskId") -> tuple[dict[str, str], dict[str, str]]:
    """All that is known of a task, as names and values, and the tracebacks of its attempts by their headings."""
    seen = await _look(engine, task)
    pairs = {name: value for name, value in _pair(seen).items() if value}
    attempts = {f"attempt {each.fence}": "  ".join(_attempt(each)[1:]) for each in seen.look.attempts}
    return pairs | attempts, {name: clean_lines(text.strip("\n")) for name, text in _tracebacks(seen.look).items()}


def _pair(seen: Seen) -> dict[str, str]:
    look = seen.look
    where = "claimed by" if look.task.status == Status.CLAIMED else "runs on"
    pairs = _describe(look.task, seen.queue) | {where: seen.node} | _relate(look)
    pairs |= {"data": ", ".join(look.keys), "output": ", ".join(look.streams)}
    pairs |= {"output cut": seen.cut.removeprefix("cut: "), "spec": seen.spec}
    return {name: clean(value) for name, value in pairs.items()}


def _tracebacks(look: "Look") -> dict[str, str]:
    told = {f"attempt {each.fence}": each.reason for each in look.attempts}
    if look.task.status != Status.SUCCEEDED and look.task.reason not in told.values():
        told["reason"] = look.task.reason
    return {heading: reason for heading, reason in told.items() if reason and "\n" in reason.strip()}


def _describe(task: "Task", queue: str) -> dict[str, str]:
    return {
        "task": str(task.id),
        "status": say_status(task.status),
        "reason": "" if task.status == Status.SUCCEEDED else last_line(task.reason or ""),
        "progress": _progress(task),
        "description": task.description or "",
        "queue": queue,
        "kind": task.kind,
        "priority": str(task.priority),
        "key": task.key or "",
        "group": str(task.group or ""),
        "retry of": str(task.retry_of or ""),
        "needs labels": ", ".join(task.requires),
        "timeout": "" if task.timeout is None else say_duration(task.timeout),
        "attempts": f"{task.attempts}, and {task.crashes} crashes" if task.crashes else str(task.attempts or ""),
        "created": say_time(task.created),
        "due": say_time(task.due),
        "started": say_time(task.started),
        "ended": say_time(task.ended),
    }


def _progress(task: "Task") -> str:
    percent = "" if task.percent is None else f"{task.percent:.0f}%"
    return " ".join(filter(None, (percent, task.info)))


def _relate(look: "Look") -> dict[str, str]:
    from ganger.core.graph import On

    def say(edges: Any) -> str:
        return ", ".join(str(task) if on == On.SUCCESS else f"{task}:{on}" for task, on in edges)

    return {"waits for": say(look.family.parents), "children": say(look.family.children)}


def _attempt(attempt: "Attempt") -> tuple[str, ...]:
    begun = attempt.started or attempt.claimed
    outcome = f"{attempt.outcome}: {last_line(attempt.reason)}" if attempt.reason else attempt.outcome
    return str(attempt.fence), attempt.holder, say_second(begun), _took(attempt.ended - begun), outcome


def _took(milliseconds: int) -> str:
    """Exactly where it is short; whole seconds where nobody counts more."""
    return say_duration(milliseconds if milliseconds < _LONG else milliseconds // 1_000 * 1_000)
