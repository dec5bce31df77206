"""`ganger doctor`: whether the store is well."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ganger.cli.findings import Finding
from ganger.cli.opening import find_store, refuse_remote, run_engine, take_json, take_store
from ganger.cli.printing import print_json, print_table
from ganger.cli.words import count_lines, say_bytes, say_time
from ganger.core.errors import GangerError

if TYPE_CHECKING:
    from ganger.databases.sqlite.examining import Examined
    from ganger.engine.engine import Engine

SICK_EXIT = 6
UNREADY_EXIT = 1
_SCARCE = 256 << 20
_MOST_ODD = 1_000


@click.command()
@take_store
@take_json
@click.option("--ready", is_flag=True, help="Only ask whether work is being taken; exits with 1 if it is not.")
@click.option("--node", metavar="NODE", help="With --ready: by this node, and not by any.")
def doctor(store: str | None, as_json: bool, ready: bool, node: str | None) -> None:
    """Check that the store is well; exits with 6 if it is not.

    Looked at are every page of the file, its log, the bags beside it, large data, its version, its owner, free space,
    the audit log, and whether nodes have in hand what they lease; of a PostgreSQL server the schema, clocks,
    notifications and dead rows. If something is damaged nothing is opened for writing, so that nothing is written over
    it.
    """
    if ready or node:
        findings = run_engine(store, lambda engine: _ask_ready(engine, node))
        _print(findings, as_json)
        sys.exit(0 if _is_taken(findings) else UNREADY_EXIT)
    refuse_remote(store, "the doctor")
    place = find_store(store)
    findings = _examine_server(store) if place is None else [*_examine(place.database), *_examine_blobs(place.blobs)]
    if all(finding.well for finding in findings if finding.what in {"file", "log", "bags", "version"}):
        findings += run_engine(store, _ask)
    _print(findings, as_json)
    if not all(finding.well for finding in findings):
        sys.exit(SICK_EXIT)


def _print(findings: Sequence[Finding], as_json: bool) -> None:
    for finding in findings if as_json else ():
        print_json(finding._asdict())
    if not as_json:
        print_table(("", "CHECK", "SEEN"), [("ok" if f.well else "BAD", f.what, f.seen) for f in findings])


async def _ask_ready(engine: "Engine", node: str | None) -> list[Finding]:
    found = [Finding(one.what, one.is_ready, one.why or "takes tasks") for one in await engine.readiness(node)]
    return found or [Finding("nodes", False, "none is here" if node is None else f"{node} is not here")]


def _is_taken(findings: Sequence[Finding]) -> bool:
    """By one node at least; and nothing lies ready in vain."""
    from ganger.engine.readiness import LINE

    return any(one.well for one in findings) and all(one.well for one in findings if one.what == LINE)


def _examine_server(store: str | None) -> list[Finding]:
    """What there is to see of a store that is no file: of one that a PostgreSQL server has, the server."""
    from ganger.assembly.location import fill_address, is_postgres
    from ganger.assembly.settings import load

    settings = load(Path.cwd(), store=store)
    if not is_postgres(settings):
        return []
    # Opened first: that says best what is missing, or wrong with the schema.
    run_engine(store, _touch)
    from ganger.cli.doctor_postgres import examine_postgres

    return examine_postgres(fill_address(settings, settings.store))


async def _touch(engine: "Engine") -> None:
    await engine.queues.all()


def _examine(database: Path) -> Iterator[Finding]:
    from ganger.databases.sqlite.examining import examine

    try:
        found = examine(database)
    except GangerError as error:
        yield Finding("file", False, f"{database}: {error.message}")
        return
    yield Finding("file", not found.damage, _soundness(found, database))
    yield Finding("log", found.log_damage is None, _log(found, database))
    yield Finding("bags", not found.bags, _bags(found))
    if found.kept:
        kept = ", ".join(str(path) for path in found.kept)
        yield Finding("kept", False, f"{kept}: was damaged; see what is missing, then remove it")
    if found.schema:
        seen = f"schema {found.schema}, format {found.format}, SQLite {found.library}"
        yield Finding("version", not found.too_new, seen)
    yield Finding("disk", found.sound, "no failure known" if found.sound else "the disk failed under the owner")
    yield Finding("owner", True, _owner(found))
    yield Finding("space", found.free > _SCARCE, f"{say_bytes(found.free)} free")


def _soundness(found: "Examined", database: Path) -> str:
    size = f"{say_bytes(found.size)} and a log of {say_bytes(found.log)}"
    if found.damage:
        return f"{database}: {size}, damaged: {' '.join(found.damage[0].split())}"
    return f"{database}: {size}, " + ("every page is sound" if found.checked else "sound, but without checksums")


def _log(found: "Examined", database: Path) -> str:
    return f"{database}-wal: " + ("what is in it is whole" if found.log_damage is None else found.log_damage)


def _bags(found: "Examined") -> str:
    if found.bags:
        return "; ".join(f"{path}: {what}" for path, what in found.bags.items())
    return f"{found.letters} letters, all whole"


def _examine_blobs(folder: Path) -> Iterator[Finding]:
    if folder.is_dir():
        import asyncio

        from ganger.assembly.backup import find_damaged_blobs

        count, damaged = asyncio.run(find_damaged_blobs(folder))
        seen = f"{count}, all as they were written" if not damaged else ", ".join(damaged)
        yield Finding("blobs", not damaged, f"{folder}: {seen}")


def _owner(found: "Examined") -> str:
    if found.owner is None:
        return "nobody has the file at the moment"
    return f"process {found.owner}, since {say_time(found.since)}"


async def _ask(engine: "Engine") -> list[Finding]:
    return [await _audit(engine), await _nodes(engine), await _leases(engine), *await _strangers(engine)]


async def _strangers(engine: "Engine") -> list[Finding]:
    """Documents of others that make no sense are no fault of the store: they are told, and well."""
    from ganger.engine.store import Strangers

    if not isinstance(engine.store, Strangers):
        return []
    found = [f"{one.collection} {one.id}: {one.what}" for one in await engine.store.list_odd(_MOST_ODD)]
    seen = "; ".join(found[:10]) + (f"; and {len(found) - 10} more" if len(found) > 10 else "")
    return [Finding("strangers", True, f"left alone: {seen}" if found else "every document makes sense")]


async def _leases(engine: "Engine") -> Finding:
    """What a live node leases, it has in hand."""
    from ganger.engine.unheld import find_unheld

    found = [f"task {one.task.id} by {one.node.name}" for one in await find_unheld(engine.store)]
    seen = f"leased by a node that has it not in hand: {', '.join(found[:10])}; restart the node"
    return Finding("leases", not found, seen if found else "live nodes have in hand what they lease")


async def _audit(engine: "Engine") -> Finding:
    try:
        verified = await engine.verify_audit()
    except GangerError as error:
        return Finding("audit", False, error.message)
    return Finding("audit", True, f"{count_lines(verified.lines)}, unbroken")


async def _nodes(engine: "Engine") -> Finding:
    """No node is no fault of the store: it is told, and well."""
    from ganger.runtime.clock import SystemClock

    now = SystemClock().now()
    live = [node.name for node in await engine.nodes.all() if node.live(now)]
    return Finding("nodes", True, ", ".join(live[:10]) or "none is here: nothing will run")
