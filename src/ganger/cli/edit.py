"""`ganger edit`: a task that has not started is changed."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.inside import find_attempt
from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.printing import print_json
from ganger.cli.words import read_duration, read_id, read_variable

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.core.lease import Lease
    from ganger.engine.engine import Engine
    from ganger.engine.store import Change
    from ganger.wire.specs import CommandSpec, ShellSpec

_WHOLE = 1 << 20
_INSIDE = ("command", "script", "cwd", "env")
"""What lies in the spec of a task."""


def _find_folder(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    from pathlib import Path

    return None if path is None else str(Path(path).absolute())


@click.command()
@take_store
@take_json
@click.option("--family", "in_family", is_flag=True, help="Inside a task: change its parents or children, as itself.")
@click.option("--shell", "script", metavar="SCRIPT", help="Another bash script.")
@click.option("--priority", type=click.IntRange(0, 4294967295), metavar="N", help="Smaller is sooner.")
@click.option("--description", help="What people see in lists.")
@click.option("--timeout", type=read_duration, metavar="DURATION", help="Kill it after so long.")
@click.option("--retries", type=click.IntRange(0), metavar="N", help="Try so many times again after a failure.")
@click.option("--cwd", type=click.Path(), callback=_find_folder, help="The folder it runs in.")
@click.option("--env", type=read_variable, multiple=True, metavar="NAME[=VALUE]", help="Add to its environment.")
@click.argument("task", type=read_id, metavar="ID")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def edit(store: str | None, as_json: bool, task: "TaskId", in_family: bool, **given: Any) -> None:
    """Change a task that has not started: ganger edit ID [options] [-- COMMAND ARGUMENTS].

    What is not named stays as it is. Exits with 4 if the task has started or ended.
    """
    if given["command"] and given["script"] is not None:
        raise click.UsageError("give a command after -- or a script with --shell, not both")
    if all(value is None or value == () for value in given.values()):
        raise click.UsageError("say what is to be changed: see ganger edit --help")
    lease = find_attempt(store) if in_family else None
    run_engine(store, lambda engine: _edit(engine, task, lease, given))
    if as_json:
        print_json({"id": task, "done": True})
    else:
        click.echo(task)


async def _edit(engine: "Engine", task: "TaskId", lease: "Lease | None", given: dict[str, Any]) -> None:
    from ganger.core.token import Attempt
    from ganger.engine.store import Edit

    change = Edit(task, change=await _change(engine, task, given))
    if lease is None:
        await engine.edit([change], by=name_operator())
    else:
        await engine.edit([change], under=Attempt(lease, queues=None))


async def _change(engine: "Engine", task: "TaskId", given: dict[str, Any]) -> "Change":
    from ganger.core.retry import Retry, to_text
    from ganger.engine.store import Change

    return Change(
        spec=await _spec(engine, task, given) if any(given[name] for name in _INSIDE) else None,
        priority=given["priority"],
        description=_describe(given),
        retry=None if given["retries"] is None else to_text(Retry(given["retries"] + 1)),
        timeout=given["timeout"],
    )


def _describe(given: dict[str, Any]) -> str | None:
    """What was asked for; another command is described by itself."""
    from ganger.cli.submit import describe

    if given["description"] is not None or not (given["command"] or given["script"]):
        said: str | None = given["description"]
        return said
    return describe(given)


async def _spec(engine: "Engine", task: "TaskId", given: dict[str, Any]) -> bytes:
    import msgspec

    from ganger.wire.specs import encode

    spec = await _read_spec(engine, task)
    changed: dict[str, Any] = _program(spec, given)
    if given["cwd"] is not None:
        changed["cwd"] = given["cwd"]
    if given["env"]:
        changed["env"] = {**spec.env, **dict(given["env"])}
    return encode(msgspec.structs.replace(spec, **changed))


async def _read_spec(engine: "Engine", task: "TaskId") -> "CommandSpec | ShellSpec":
    from ganger.core.errors import BadInput, TaskNotFound
    from ganger.core.task import Kind
    from ganger.wire.specs import CommandSpec, ShellSpec, decode

    (found,) = await engine.tasks([task])
    if found is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    if found.kind not in {Kind.COMMAND, Kind.SHELL}:
        raise BadInput(f"task {task} is a {found.kind}: only of commands and scripts this can be changed", task=task)
    body = (await engine.read_data(task, "spec", 0, _WHOLE)).body
    spec: CommandSpec | ShellSpec = decode(body, CommandSpec if found.kind == Kind.COMMAND else ShellSpec)
    return spec


def _program(spec: "CommandSpec | ShellSpec", given: dict[str, Any]) -> dict[str, Any]:
    from ganger.core.errors import BadInput
    from ganger.wire.specs import CommandSpec

    if isinstance(spec, CommandSpec):
        if given["script"] is not None:
            raise BadInput("this task is a command and stays one: give the other command after --")
        return {"argv": list(given["command"])} if given["command"] else {}
    if given["command"]:
        raise BadInput("this task is a bash script and stays one: give the other script with --shell")
    return {} if given["script"] is None else {"script": given["script"]}
