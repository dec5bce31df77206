"""`ganger progress`: a task says how far it is."""

import click

from ganger.cli.inside import find_attempt
from ganger.cli.opening import run_engine, take_store


@click.command()
@take_store
@click.argument("percent", type=click.FloatRange(0, 100))
@click.argument("text", required=False)
def progress(store: str | None, percent: float, text: str | None) -> None:
    """Say how far this task is. For use inside a task: ganger progress 40 "reading the second file".

    Exits with 4 if the attempt has lost its lease: then another may have the task, and it should end.
    """
    lease = find_attempt(store)
    run_engine(store, lambda engine: engine.progress(lease, percent, text))
