"""`ganger doctor`: whether the store is well."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ganger.cli.opening import find_store, refuse_remote, run_engine, take_json, take_store
from ganger.cli.printing import print_json, print_table
from ganger.cli.words import count_lines, say_bytes, say_time
from ganger.core.errors import GangerError
from ganger.engine.readiness import LINE

if TYPE_CHECKING:
    from ganger.databases.sqlite.examining import Examined
    from ganger.engine.engine import Engine

SICK_EXIT = 6
UNREADY_EXIT = 1
_SCARCE = 256 << 20


class Finding(NamedTuple):
    """One thing that was looked at: well or not, and what was seen."""

    what: str
    well: bool
    seen: str


@click.command()
@take_store
@take_json
@click.option("--ready", is_flag=True, help="Only ask whether work is being taken; exits with 1 if it is not.")
@click.option("--node", metavar="NODE", help="With --ready: by this node, and not by any.")
def doctor(store: str | None, as_json: bool, ready: bool, node: str | None) -> None:
    """Check that the store is well; exits with 6 if it is not.

    Looked at are every page of the file, its version, its owner, free space, and the audit log.
    """
    if ready or node:
        findings = run_engine(store, lambda engine: _ask_ready(engine, node))
        _print(findings, as_json)
        sys.exit(0 if _is_taken(findings) else UNREADY_EXIT)
    refuse_remote(store, "the doctor")
    place = find_store(store)
    findings = [] if place is None else list(_examine(place.database))
    if all(finding.well for finding in findings if finding.what in {"file", "version"}):
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
    return any(one.well for one in findings) and all(one.well for one in findings if one.what == LINE)


def _examine(database: Path) -> Iterator[Finding]:
    from ganger.databases.sqlite.examining import examine

    try:
        found = examine(database)
    except GangerError as error:
        yield Finding("file", False, error.message)
        return
    yield Finding("file", not found.damage, _soundness(found, database))
    yield Finding("version", not found.too_new, f"schema {found.schema}, format {found.format}, SQLite {found.library}")
    yield Finding("disk", found.sound, "no failure known" if found.sound else "the disk failed under the owner")
    yield Finding("owner", True, _owner(found))
    yield Finding("space", found.free > _SCARCE, f"{say_bytes(found.free)} free")


def _soundness(found: "Examined", database: Path) -> str:
    size = f"{say_bytes(found.size)} and a log of {say_bytes(found.log)}"
    return f"{database}: {size}, " + (f"damaged: {found.damage[0]}" if found.damage else "every page is sound")


def _owner(found: "Examined") -> str:
    if found.owner is None:
        return "nobody has the file at the moment"
    return f"process {found.owner}, since {say_time(found.since)}"


async def _ask(engine: "Engine") -> list[Finding]:
    return [await _audit(engine), await _nodes(engine)]


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
