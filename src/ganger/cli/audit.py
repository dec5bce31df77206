"""`ganger audit`: the log of what operators did."""

import click

from ganger.cli.opening import refuse_remote, run_engine, take_json, take_store
from ganger.cli.overview import Brief
from ganger.cli.printing import print_json
from ganger.cli.words import count_lines


@click.group(cls=Brief)
def audit() -> None:
    """The log of what operators did. Each line is chained to the one before."""


@audit.command()
@take_store
@take_json
def verify(store: str | None, as_json: bool) -> None:
    """Check that no line was changed or removed; exits with 6 and names the first that was."""
    refuse_remote(store, "a check of the audit log")
    verified = run_engine(store, lambda engine: engine.verify_audit())
    if as_json:
        print_json({"lines": verified.lines, "head": verified.head.hex()})
    else:
        click.echo(f"{count_lines(verified.lines)}, unbroken; the last hash is {verified.head.hex()}")
