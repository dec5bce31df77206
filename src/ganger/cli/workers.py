"""`ganger workers`: who works on the jobs of a server."""

from typing import TYPE_CHECKING

import click

from ganger.cli.opening import take_json
from ganger.cli.printing import print_json, print_table, tell

if TYPE_CHECKING:
    from ganger.wire.jobs.shapes import Worker

COLUMNS = ("ID", "NAME", "TYPE", "STATE", "SEEN", "JOB", "SUCCEEDED", "FAILED", "ADDRESS")

take_url = click.option(
    "--url", metavar="URL", help="The server (default: GANGER_URL, ganger.toml, http://127.0.0.1:8470)."
)


@click.group()
def workers() -> None:
    """List the workers of jobs, and send them away."""


@workers.command("ls")
@take_url
@take_json
@click.option("-a", "--all", "everyone", is_flag=True, help="Also those that went a while ago.")
def list_workers(url: str | None, as_json: bool, everyone: bool) -> None:
    """List the workers that are here: what each does, and what came of its jobs."""
    import asyncio

    import msgspec

    from ganger.assembly.work import ask_workers

    found = asyncio.run(ask_workers(url))
    shown = [worker for worker in found if everyone or worker.disconnected is None]
    if as_json:
        for worker in shown:
            print_json(msgspec.to_builtins(worker))
    elif shown:
        print_table(COLUMNS, list(map(_row, shown)))
    else:
        tell("no worker is here" + ("" if len(found) == len(shown) else f"; {len(found)} were: see --all"))


@workers.command()
@take_url
@click.argument("name", metavar="ID")
def kick(url: str | None, name: str) -> None:
    """Send a worker away, by its id or by the name of its node; its job goes to another and is not blamed.

    One whose token is good may come back: remove its token as well to keep it out.
    """
    import asyncio

    from ganger.assembly.work import kick_worker

    for worker in asyncio.run(kick_worker(url, name)):
        click.echo(worker.node)


def _row(worker: "Worker") -> tuple[str, ...]:
    state = worker.state if worker.last_state is None else f"{worker.state} ({worker.last_state})"
    counts = str(worker.succeeded), str(worker.failed)
    return worker.id, worker.name, worker.type or "-", state, worker.seen, worker.job or "-", *counts, worker.address
