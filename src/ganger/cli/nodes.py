"""`ganger nodes`: who takes tasks."""

from typing import TYPE_CHECKING

import click

from ganger.cli.opening import take_json, take_store, view_engine
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import say_bytes, say_length
from ganger.core.node import NodeState

if TYPE_CHECKING:
    from ganger.core.node import Node

_START = ": start one with `ganger up`"
COLUMNS = ("NODE", "STATE", "SEEN", "SLOTS", "HELD", "LOAD", "MEMORY", "QUEUES", "LABELS")


@click.command()
@take_store
@take_json
@click.option("-a", "--all", "everyone", is_flag=True, help="Also those that left or were lost a while ago.")
def nodes(store: str | None, as_json: bool, everyone: bool) -> None:
    """List the nodes that are here."""
    from ganger.cli.views import view_node

    found = view_engine(store, lambda engine: engine.nodes.all())
    shown = [node for node in found if everyone or node.here]
    if as_json:
        for node in shown:
            print_json(view_node(node))
    elif shown:
        print_table(COLUMNS, list(map(node_row, shown)))
    else:
        tell(
            "no node is here" + (_START if len(found) == len(shown) else f"; {len(found)} left or were lost: see --all")
        )


def node_row(node: "Node") -> tuple[str, ...]:
    """What a person sees of a node: slots in use of all, tasks that it holds, load and memory of its machine."""
    from ganger.runtime.clock import SystemClock

    clock = SystemClock()
    seen = f"{say_length(clock.wall() - node.seen)} ago"
    queues = "all" if node.queues is None else ",".join(node.queues)
    return node.name, _say_state(node, clock.now()), seen, *_say_vitals(node), queues, ",".join(node.labels)


def _say_state(node: "Node", now: int) -> str:
    """One that is here and has missed its beats is silent; one that says that it takes no work is unready."""
    if node.here and now >= node.until:
        return "silent"
    troubled = node.state == NodeState.ACTIVE and node.vitals is not None and node.vitals.trouble
    return "unready" if troubled else str(node.state)


def _say_vitals(node: "Node") -> tuple[str, str, str, str]:
    told = node.vitals
    if told is None or not node.here:
        return "-" if node.slots is None else str(node.slots), "-", "-", "-"
    memory = f"{told.memory / told.size:.0%} of {say_bytes(told.size, 0)}" if told.size else "-"
    return f"{told.used}/{told.slots}", str(told.held), f"{told.load:.2f}", memory
