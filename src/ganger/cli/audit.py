"""`ganger audit`: the log of what operators did."""

import asyncio
import json
from pathlib import Path

import click

from ganger.assembly.registry import open_parts
from ganger.assembly.settings import Settings, load
from ganger.engine.audit import Verified
from ganger.engine.audit import verify as verify_log
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy


@click.group()
def audit() -> None:
    """The log of what operators did; each line is chained to the one before."""


@audit.command()
@click.option(
    "--store", metavar="URL", help="Where the tasks are (default: GANGER_STORE, ganger.toml, sqlite:ganger.db)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(store: str | None, as_json: bool) -> None:
    """Check that no line was changed or removed; exits with 1 and names the first that was."""
    verified = asyncio.run(_verify(load(Path.cwd(), store=store)))
    if as_json:
        click.echo(json.dumps({"lines": verified.lines, "head": verified.head.hex()}))
    else:
        click.echo(f"{verified.lines} lines, unbroken; the last hash is {verified.head.hex()}")


async def _verify(settings: Settings) -> Verified:
    async with open_parts(settings, SystemClock(), SystemEntropy()) as parts:
        return await verify_log(parts.store)
