"""`ganger disbatch`: queues, nodes and tasks in the words of Disbatch."""

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ganger.cli.acting import run_act
from ganger.cli.opening import name_operator, refuse_remote, run_engine, take_json, take_store, view_engine
from ganger.cli.overview import Brief
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import say_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganger.core.ids import QueueId
    from ganger.core.node import Node
    from ganger.core.queue import Queue
    from ganger.engine.engine import Engine
    from ganger.engine.operate import Moved
    from ganger.engine.view import View
    from ganger.wire.disbatch.shapes import QueueReport

_COLUMNS: Final = ("ID", "PLUGIN", "NAME", "THREADS", "MAXTHREADS", "QUEUED", "RUNNING", "COMPLETED")
_REFUSALS: Final = {"stale": "was settled or taken meanwhile", "wrong_status": "has ended meanwhile", "gone": "is gone"}


@click.group(cls=Brief)
def disbatch() -> None:
    """See queues and nodes as Disbatch does, and make queues and tasks for plugins."""


@disbatch.command()
@take_store
@take_json
def status(store: str | None, as_json: bool) -> None:
    """List the queues: how many tasks wait, run and are done. What was cancelled counts as queued, as it always did."""

    async def read(engine: "Engine | View") -> "list[QueueReport]":
        from ganger.wire.disbatch.queues import report

        counts = {each.queue: each for each in (await engine.counts())[0]}
        faces = await _name_queues(engine)
        found = await engine.queues.all()
        return [report(faces.get(queue.id, "-"), queue, counts.get(queue.id)) for queue in found]

    found = view_engine(store, read)
    if as_json:
        _print_lines(found)
    elif found:
        print_table(_COLUMNS, [_row(each) for each in found])
    else:
        tell("no queues yet: make one with `ganger disbatch create`")


async def _name_queues(engine: "Engine | View") -> "Mapping[QueueId, str]":
    """The ids of queues as Disbatch clients know them."""
    from ganger.assembly.registry import find_faces
    from ganger.wire.disbatch.words import say_number

    known = find_faces(engine.store)
    if known is not None:
        return await known.name_queues()
    here = await engine.store.directory()
    return {queue.id: say_number(here.tag, queue.id) for queue in here.queues}


def _row(each: "QueueReport") -> tuple[str, ...]:
    limits = ("-" if limit is None else str(limit) for limit in (each.threads, each.maxthreads))
    return each.id, each.plugin, each.name, *limits, str(each.queued), str(each.running), str(each.completed)


def _print_lines(reports: "list[QueueReport]") -> None:
    import msgspec

    for each in reports:
        print_json(msgspec.to_builtins(each))


@disbatch.command()
@take_store
@take_json
def nodes(store: str | None, as_json: bool) -> None:
    """List the nodes, of whatever make, each with its limit and when it was last heard."""

    async def read(engine: "Engine | View") -> "list[Node]":
        return [*await engine.nodes.strangers(), *sorted(await engine.nodes.all(), key=lambda one: one.id)]

    newest = {node.name: node for node in view_engine(store, read)}
    if as_json:
        for node in newest.values():
            told = {"node": node.name, "timestamp": node.seen, "live": node.here, "maxthreads": node.slots}
            print_json(told)
    elif newest:
        print_table(("NODE", "LIVE", "SEEN", "MAXTHREADS"), [_node_row(node) for node in newest.values()])
    else:
        tell("no node was ever here: start one with `ganger up`")


def _node_row(node: "Node") -> tuple[str, ...]:
    from ganger.runtime.clock import SystemClock

    seen = f"{say_length(SystemClock().wall() - node.seen)} ago"
    return node.name, "yes" if node.here else "no", seen, "-" if node.slots is None else str(node.slots)


@disbatch.command()
@take_store
@click.option("--threads", metavar="N", help="So many of its tasks run at once on all nodes.")
@click.option("--maxthreads", metavar="N", help="So many of its tasks run at once on each node.")
@click.option("--sort", metavar="ORDER", help="fifo, lifo or default.")
@click.argument("name", metavar="QUEUE")
@click.argument("plugin")
def create(store: str | None, name: str, plugin: str, **given: str | None) -> None:
    """Make a queue for a plugin, and print its id. Lost tasks of it are orphaned, and not run again."""
    from ganger.wire.disbatch.queues import read_new

    said = {name: value for name, value in given.items() if value is not None}
    wish = read_new({"name": name, "plugin": plugin, **said}, {plugin})

    async def make(engine: "Engine") -> str:
        from ganger.core.errors import Conflict

        if any(each.name == name for each in await engine.queues.all()):
            raise Conflict(f"a queue is called {name!r} already; change it with `ganger queue change`", name=name)
        made = await engine.queues.create(name, wish.policy, by=name_operator())
        return (await _name_queues(engine))[made.id]

    click.echo(run_engine(store, make, makes=True))


@disbatch.command()
@take_store
@click.argument("name", metavar="QUEUE")
@click.argument("params", nargs=-1)
def add(store: str | None, name: str, params: tuple[str, ...]) -> None:
    """Make a task of each JSON object: of those given, or of each line of standard input. Prints their ids."""
    from ganger.wire.disbatch.making import check_lot

    lines = params or tuple(line for line in sys.stdin.read().splitlines() if line.strip())
    lot = check_lot([_read_params(line) for line in lines])

    async def submit(engine: "Engine") -> list[int]:
        from ganger.wire.disbatch.making import make_tasks

        queue = await engine.queues.named(name)
        made = await engine.submit(make_tasks(queue.id, _demand_plugin(queue), lot))
        return [int(task) for task in made.ids]

    for task in run_engine(store, submit):
        click.echo(task)


def _read_params(text: str) -> Any:
    import msgspec

    from ganger.core.errors import BadInput

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise BadInput(f"{text!r:.80} is not JSON: {error}") from None


def _demand_plugin(queue: "Queue") -> str:
    from ganger.core.errors import BadInput

    if queue.policy.plugin is None:
        raise BadInput(f"the queue {queue.name!r} has no plugin: give it one with `ganger queue change --plugin`")
    return queue.policy.plugin


@disbatch.command()
@take_store
@take_json
@click.option("--force", is_flag=True, help="Also if the node was heard of within a minute.")
@click.argument("node")
def orphan(store: str | None, as_json: bool, force: bool, node: str) -> None:
    """End what a node that is no more had in hand, as orphaned. Nobody runs it again."""
    refuse_remote(store, "orphaning tasks")

    async def act(engine: "Engine") -> "Moved":
        return await engine.orphan(node, by=name_operator(), force=force)

    run_act(store, as_json, _REFUSALS, act, f"the node {node} had nothing in hand")


@disbatch.command()
@take_store
@click.argument("wanted", required=False, metavar="[plain|later]")
def dialect(store: str | None, wanted: str | None) -> None:
    """Say which words the documents of a MongoDB store have, or choose them before it is first used.

    `plain` are those of the protocol's text, `later` those of Disbatch's later releases. A database has one for ever.
    """
    import asyncio
    from pathlib import Path

    from ganger.assembly.registry import choose_dialect, find_dialect
    from ganger.assembly.settings import load
    from ganger.runtime.clock import SystemClock
    from ganger.runtime.entropy import SystemEntropy

    settings, entropy = load(Path.cwd(), store=store), SystemEntropy()
    asked = find_dialect(settings, entropy) if wanted is None else None
    told = asyncio.run(asked or choose_dialect(settings, SystemClock(), entropy, wanted or ""))
    click.echo(told or "none yet")
