"""`ganger node`: what an operator does to nodes."""

from typing import TYPE_CHECKING

import click

from ganger.cli.bars import show_count
from ganger.cli.nodes import nodes
from ganger.cli.opening import name_operator, run_engine, take_json, take_store
from ganger.cli.printing import print_json, tell

if TYPE_CHECKING:
    from ganger.core.ids import NodeId
    from ganger.core.node import Node
    from ganger.engine.engine import Engine

_LOOK_AGAIN = 0.25
_PAGE = 1_000


@click.group()
def node() -> None:
    """List nodes, and empty one before it is stopped."""


node.add_command(nodes, "ls")


@node.command()
@take_store
@take_json
@click.option("--wait", is_flag=True, help="Wait until what it runs has ended.")
@click.argument("name", metavar="NODE")
def drain(store: str | None, as_json: bool, wait: bool, name: str) -> None:
    """Have a node take nothing more; what it runs may finish. It takes tasks again when it is started anew."""
    drained, left = run_engine(store, lambda engine: _drain(engine, name, wait))
    if as_json:
        print_json({"node": drained.name, "state": drained.state, "running": left})
    else:
        click.echo(drained.name)
        tell(f"it takes nothing more; {left} of its tasks run" if left else "it takes nothing more, and runs nothing")


async def _drain(engine: "Engine", name: str, wait: bool) -> "tuple[Node, int]":
    """The node as it is now, and how many tasks it still has."""
    from ganger.core.errors import NodeNotFound
    from ganger.engine.audit import act
    from ganger.engine.store import Configure, NodeChange

    found = next((each for each in await engine.nodes.all() if each.here and each.name == name), None)
    if found is None:
        raise NodeNotFound(f"no node called {name!r:.80} is here; see `ganger nodes`", name=name)
    said = act(name_operator(), "node.drain", name=name)
    await engine.store.configure(Configure(node=NodeChange(found.id, drain=True), act=said))
    left = await (_wait(engine, found.id) if wait else _count(engine, found.id))
    return next((each for each in await engine.nodes.all() if each.id == found.id), found), left


async def _wait(engine: "Engine", holder: "NodeId") -> int:
    import asyncio

    left = total = await _count(engine, holder)
    with show_count("draining", total) as seen:
        while left:
            seen(max(0, total - left))
            await asyncio.sleep(_LOOK_AGAIN)
            left = await _count(engine, holder)
    return left


async def _count(engine: "Engine", holder: "NodeId") -> int:
    from ganger.core.state import LEASED
    from ganger.engine.store import Query

    held = Query(holder=holder, statuses=tuple(map(int, LEASED)), most=_PAGE)
    return len([task async for task in engine.walk(held)])
