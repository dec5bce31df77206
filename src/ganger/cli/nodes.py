"""`ganger nodes`: who takes tasks."""

from typing import TYPE_CHECKING

import click

from ganger.cli.opening import take_json, take_store, view_engine
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import say_bytes, say_length
from ganger.core.node import NodeState

if TYPE_CHECKING:
    from ganger.core.ids import NodeId
    from ganger.core.node import Node
    from ganger.engine.engine import Engine
    from ganger.engine.nodes import InHand
    from ganger.engine.view import View

_START = ": start one with `ganger up`"
COLUMNS = ("NODE", "STATE", "SEEN", "SLOTS", "RUN", "CLAIMED", "LOAD", "MEMORY", "QUEUES", "LABELS")


@click.command()
@take_store
@take_json
@click.option("-a", "--all", "everyone", is_flag=True, help="Also those that left or were lost a while ago.")
def nodes(store: str | None, as_json: bool, everyone: bool) -> None:
    """List the nodes that are here.

    RUN are the tasks that a node has begun, CLAIMED those that it has and has not begun.
    """
    from ganger.cli.views import view_node

    found, in_hand = view_engine(store, _read)
    shown = [node for node in found if everyone or node.here]
    if as_json:
        for node in shown:
            print_json(view_node(node, in_hand.get(node.id)))
    elif shown:
        print_table(COLUMNS, [node_row(node, in_hand.get(node.id)) for node in shown])
    else:
        tell(
            "no node is here" + (_START if len(found) == len(shown) else f"; {len(found)} left or were lost: see --all")
        )


async def _read(engine: "Engine | View") -> "tuple[list[Node], dict[NodeId, InHand]]":
    found = await engine.nodes.all()
    return found, await engine.nodes.in_hand([node for node in found if node.here])


def node_row(node: "Node", has: "InHand | None") -> tuple[str, ...]:
    """What a person sees of a node: its slots, tasks that it runs and has claimed, load and memory of its machine."""
    from ganger.runtime.clock import SystemClock

    clock = SystemClock()
    seen = f"{say_length(clock.wall() - node.seen)} ago"
    queues = "all" if node.queues is None else ",".join(node.queues)
    slots, *machine = _say_vitals(node)
    tasks = ("-", "-") if has is None else map(str, has)
    state = _say_state(node, clock.now())
    return node.name, state, seen, slots, *tasks, *machine, queues, ",".join(node.labels)


def _say_state(node: "Node", now: int) -> str:
    """One that is here and has missed its beats is silent; one that says that it takes no work is unready."""
    if node.here and now >= node.until:
        return "silent"
    troubled = node.state == NodeState.ACTIVE and node.vitals is not None and node.vitals.trouble
    return "unready" if troubled else str(node.state)


def _say_vitals(node: "Node") -> tuple[str, str, str]:
    told = node.vitals
    if told is None or not node.here:
        return "-" if node.slots is None else str(node.slots), "-", "-"
    memory = f"{told.memory / told.size:.0%} of {say_bytes(told.size, 0)}" if told.size else "-"
    return str(told.slots), f"{told.load:.2f}", memory
