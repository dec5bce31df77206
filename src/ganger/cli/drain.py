"""`ganger drain`: a node takes nothing more, finishes what runs, and leaves."""

import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from ganger.cli.bars import show_count
from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.printing import print_json, tell
from ganger.core.node import NodeState

if TYPE_CHECKING:
    from ganger.core.node import Node
    from ganger.engine.engine import Engine
    from ganger.engine.nodes import InHand

RESUMED_EXIT = 4
_LOOK_AGAIN = 0.25
_LOOKS = 40
"""So often a node that has nothing left is looked at until it has left: one of somebody's own program may stay."""


class Drained(NamedTuple):
    """The node as it is now, and the tasks that it still has."""

    node: "Node"
    left: "InHand"


@click.command()
@take_store
@take_json
@click.option("--wait", is_flag=True, help="Wait until what it runs has ended and it has left.")
@click.option("--resume", is_flag=True, help="Let it take tasks again, if it has not left yet.")
@click.argument("name", metavar="NODE")
def drain(store: str | None, as_json: bool, wait: bool, resume: bool, name: str) -> None:
    """Have a node take nothing more: it gives back what it has not begun, finishes the rest, and ends.

    Started anew it takes tasks again. With --wait the exit code is 4 if somebody resumes it meanwhile.
    """
    if wait and resume:
        raise click.UsageError("a node that is resumed does not end: give --wait or --resume")
    done = run_engine(store, lambda engine: _resume(engine, name) if resume else _drain(engine, name, wait))
    if as_json:
        print_json({"node": done.node.name, "state": done.node.state, **done.left._asdict()})
    else:
        click.echo(done.node.name)
        tell(_say(done))
    if done.node.state == NodeState.ACTIVE and not resume:
        sys.exit(RESUMED_EXIT)


def _say(done: Drained) -> str:
    left = done.left.total
    match done.node.state:
        case NodeState.ACTIVE:
            return "it takes tasks"
        case NodeState.DRAINING:
            return f"it takes nothing more; it still has {left} tasks" if left else "it takes nothing more"
        case NodeState.LEFT:
            return "it has left"
        case _:
            return "its beats have stopped, and what it held goes back to its queues"


async def _resume(engine: "Engine", name: str) -> Drained:
    node = await engine.nodes.resume(name, by=name_operator())
    return Drained(node, await _count(engine, node))


async def _drain(engine: "Engine", name: str, wait: bool) -> Drained:
    node = await engine.nodes.drain(name, by=name_operator())
    has = await _count(engine, node)
    return await _wait(engine, node, has) if wait else Drained(node, has)


async def _wait(engine: "Engine", node: "Node", had: "InHand") -> Drained:
    import asyncio

    left, total, looks = had, had.total, 0
    with show_count("draining", total) as seen:
        while node.state == NodeState.DRAINING and looks < _LOOKS:
            await asyncio.sleep(_LOOK_AGAIN)
            node = next((each for each in await engine.nodes.all() if each.id == node.id), node)
            left = await _count(engine, node)
            looks = 0 if left.total else looks + 1
            seen(max(0, total - left.total))
    return Drained(node, left)


async def _count(engine: "Engine", node: "Node") -> "InHand":
    return (await engine.nodes.in_hand([node]))[node.id]
