"""`ganger show`: everything about one task."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import clean, print_json, print_pairs, print_table
from ganger.cli.words import read_id, say_duration, say_second, say_status, say_time

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
@click.argument("task", type=read_id, metavar="ID")
def show(store: str | None, as_json: bool, task: "TaskId") -> None:
    """Show all that is known of a task. That is itself, its family, its attempts and its data."""
    seen = run_engine(store, lambda engine: _look(engine, task))
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


async def _look(engine: "Engine", task: "TaskId") -> Seen:
    from ganger.cli.views import name_nodes, name_queues

    look = await engine.look(task)
    spec = (await engine.read_data(task, "spec", 0, _SPEC_SHOWN)).body.decode("utf-8", "replace")
    names, holder = await name_queues(engine), look.task.holder
    node = "" if holder is None else (await name_nodes(engine)).get(holder, str(holder))
    return Seen(look, names.get(look.task.queue, str(look.task.queue)), node, spec)


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
    }


def _print(seen: Seen) -> None:
    look = seen.look
    pairs = _describe(look.task, seen.queue) | {"runs on": seen.node} | _relate(look)
    pairs |= {"data": ", ".join(look.keys), "output": ", ".join(look.streams), "spec": seen.spec}
    print_pairs({name: clean(value) for name, value in pairs.items()})
    if look.attempts:
        click.echo()
        print_table(("ATTEMPT", "NODE", "STARTED", "TOOK", "OUTCOME"), [_attempt(each) for each in look.attempts])


def _describe(task: "Task", queue: str) -> dict[str, str]:
    return {
        "task": str(task.id),
        "status": say_status(task.status),
        "reason": task.reason or "",
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
    outcome = f"{attempt.outcome}: {attempt.reason}" if attempt.reason else attempt.outcome
    return str(attempt.fence), attempt.holder, say_second(begun), _took(attempt.ended - begun), outcome


def _took(milliseconds: int) -> str:
    """Exactly where it is short; whole seconds where nobody counts more."""
    return say_duration(milliseconds if milliseconds < _LONG else milliseconds // 1_000 * 1_000)
