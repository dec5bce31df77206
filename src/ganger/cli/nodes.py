"""`ganger nodes`: who takes tasks."""

from typing import TYPE_CHECKING

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import say_length

if TYPE_CHECKING:
    from ganger.core.node import Node

COLUMNS = ("NODE", "STATE", "SEEN", "SLOTS", "QUEUES", "LABELS")


@click.command()
@take_store
@take_json
@click.option("-a", "--all", "everyone", is_flag=True, help="Also those that left or were lost a while ago.")
def nodes(store: str | None, as_json: bool, everyone: bool) -> None:
    """List the nodes that are here."""
    from ganger.cli.views import view_node

    found = run_engine(store, lambda engine: engine.nodes.all())
    shown = [node for node in found if everyone or node.here]
    if as_json:
        for node in shown:
            print_json(view_node(node))
    elif shown:
        print_table(COLUMNS, list(map(node_row, shown)))
    else:
        tell("no node is here" + ("" if len(found) == len(shown) else f"; {len(found)} were: see --all"))


def node_row(node: "Node") -> tuple[str, ...]:
    """What a person sees of a node; one that is here and has missed its beats is silent."""
    from ganger.runtime.clock import SystemClock

    clock = SystemClock()
    state = "silent" if node.here and not node.live(clock.now()) else str(node.state)
    seen = f"{say_length(clock.wall() - node.seen)} ago"
    slots = "-" if node.slots is None else str(node.slots)
    queues = "all" if node.queues is None else ",".join(node.queues)
    return node.name, state, seen, slots, queues, ",".join(node.labels)
