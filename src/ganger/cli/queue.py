"""`ganger queue`: the queues and their policies."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import name_operator, run_engine, take_json, take_store, view_engine
from ganger.cli.overview import Brief
from ganger.cli.policy import NONE, apply, take_policy
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import read_duration, say_time

if TYPE_CHECKING:
    from ganger.core.queue import Counts, Policy, Queue
    from ganger.engine.engine import Engine
    from ganger.engine.view import View

take_name = click.argument("name", metavar="QUEUE")


@click.group(cls=Brief)
def queue() -> None:
    """Make, change, pause and remove queues. A queue is named by its name, or as id:3 if two bear it."""


@queue.command()
@take_store
@take_json
def ls(store: str | None, as_json: bool) -> None:
    """List the queues."""

    async def read(engine: "Engine | View") -> "tuple[list[Queue], dict[int, Counts]]":
        counts, _ = await engine.counts()
        return await engine.queues.all(), {int(count.queue): count for count in counts}

    queues, counts = view_engine(store, read)
    if as_json:
        _print_lines(queues)
    elif queues:
        rows = [_row(each, counts.get(int(each.id))) for each in queues]
        print_table(("ID", "QUEUE", "TASKS", "OPEN", "STATE", "POLICY"), rows)
    else:
        tell("no queues yet: make one with `ganger queue create`")


def _print_lines(queues: "list[Queue]") -> None:
    from ganger.cli.views import view_queue

    for each in queues:
        print_json(view_queue(each))


def _row(each: "Queue", counts: "Counts | None") -> tuple[str, ...]:
    from ganger.runtime.clock import SystemClock

    total, waits = (0, 0) if counts is None else (counts.total, _count_open(counts))
    paused = each.paused(SystemClock().wall())
    return str(each.id), each.name, str(total), str(waits), "paused" if paused else "open", _differences(each.policy)


def _count_open(counts: "Counts") -> int:
    """How many have not ended. `todo` is another number: by its old definition it counts what was cancelled too."""
    from ganger.core.state import is_final

    return sum(n for code, n in counts.by_status.items() if not is_final(code))


def _differences(policy: "Policy") -> str:
    """What is not as it is by default."""
    from ganger.core.queue import Policy
    from ganger.core.retry import from_text

    plain = Policy()
    found = {name: value for name, value in policy._asdict().items() if value != getattr(plain, name)}
    if "retry" in found:
        found["retry"] = f"{from_text(policy.retry).max_attempts} attempts"
    return ", ".join(
        f"{name}={','.join(value) if isinstance(value, tuple) else value}" for name, value in found.items()
    )


@queue.command()
@take_store
@take_json
@take_policy
@take_name
def create(store: str | None, as_json: bool, name: str, **given: Any) -> None:
    """Make a queue. A name that is taken is refused."""

    async def make(engine: "Engine") -> "Queue":
        from ganger.core.errors import Conflict
        from ganger.core.queue import Policy

        if any(each.name == name for each in await engine.queues.all()):
            raise Conflict(f"a queue is called {name!r} already; change it with `ganger queue change`", name=name)
        policy = apply(Policy(), given, await _becomes(engine, given))
        return await engine.queues.create(name, policy, by=name_operator())

    _print(run_engine(store, make, makes=True), as_json)


@queue.command()
@take_store
@take_json
@take_policy
@click.option("--rename", metavar="NAME", help="Give it another name.")
@take_name
def change(store: str | None, as_json: bool, name: str, rename: str | None, **given: Any) -> None:
    """Change the policy or the name of a queue; what is not given stays as it is."""
    if rename is None and all(value is None for value in given.values()):
        raise click.UsageError("say what to change: see --help")

    async def alter(engine: "Engine") -> "Queue":
        found = await _choose(engine, name)
        policy = apply(found.policy, given, await _becomes(engine, given))
        if policy != found.policy:
            found = await engine.queues.change(found.id, policy, by=name_operator())
        return found if rename is None else await engine.queues.rename(found.id, rename, by=name_operator())

    _print(run_engine(store, alter), as_json)


@queue.command()
@take_store
@take_json
@click.option(
    "--for", "length", type=read_duration, metavar="DURATION", help="For so long (default: until it is resumed)."
)
@take_name
def pause(store: str | None, as_json: bool, name: str, length: int | None) -> None:
    """Hand out nothing of a queue; what runs goes on."""

    async def act(engine: "Engine") -> "Queue":
        return await engine.queues.pause((await _choose(engine, name)).id, length, by=name_operator())

    paused = run_engine(store, act)
    _print(paused, as_json)
    if length is not None:
        tell(f"until {say_time(paused.paused_until)}")


@queue.command()
@take_store
@take_json
@take_name
def resume(store: str | None, as_json: bool, name: str) -> None:
    """End a pause."""

    async def act(engine: "Engine") -> "Queue":
        return await engine.queues.resume((await _choose(engine, name)).id, by=name_operator())

    _print(run_engine(store, act), as_json)


@queue.command()
@take_store
@take_json
@click.option("--drop", is_flag=True, help="Cancel the tasks that wait in it; those that run still refuse.")
@take_name
def rm(store: str | None, as_json: bool, name: str, drop: bool) -> None:
    """Remove a queue that has no open tasks; those that have ended go with it."""

    async def act(engine: "Engine") -> "tuple[Queue, int]":
        found = await _choose(engine, name)
        counts, _ = await engine.counts()
        await engine.queues.delete(found.id, by=name_operator(), drop=drop)
        return found, next((each.total for each in counts if each.queue == found.id), 0)

    removed, tasks = run_engine(store, act)
    _print(removed, as_json)
    if tasks:
        tell("its 1 task went with it" if tasks == 1 else f"its {tasks} tasks went with it")


async def _choose(engine: "Engine", name: str) -> "Queue":
    from ganger.cli.views import choose_queue

    return await choose_queue(engine, name)


async def _becomes(engine: "Engine", given: dict[str, Any]) -> int | None:
    name = given["becomes"]
    return None if name in {None, NONE} else int((await _choose(engine, name)).id)


def _print(made: "Queue", as_json: bool) -> None:
    from ganger.cli.views import view_queue

    if as_json:
        print_json(view_queue(made))
    else:
        click.echo(made.name)
