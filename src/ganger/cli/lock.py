"""`ganger lock`: run a command while no other machine runs one under the same name."""

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ganger.cli.opening import take_store
from ganger.cli.words import read_duration

if TYPE_CHECKING:
    import socket

BUSY_EXIT: Final = 1

take_ttl = click.option(
    "--ttl",
    default="10s",
    show_default=True,
    metavar="DURATION",
    callback=lambda _, __, value: read_duration(value),
    help="How long it stays taken when this machine dies; the same for all who use the name.",
)


@click.command()
@take_store
@click.option(
    "-w",
    "--wait",
    metavar="DURATION",
    callback=lambda _, __, value: None if value is None else read_duration(value),
    help="Wait no longer than this (default: as long as it takes).",
)
@click.option("-n", "--nonblock", is_flag=True, help="Do not wait at all.")
@click.option("--slots", type=click.IntRange(1, 1_000), metavar="N", help="Let so many run at a time, not one.")
@click.option(
    "-E",
    "--conflict-exit-code",
    "busy",
    type=click.IntRange(0, 255),
    default=BUSY_EXIT,
    show_default=True,
    metavar="CODE",
    help="Exit with this if the lock is not to be had in time.",
)
@take_ttl
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def lock(store: str | None, **given: Any) -> None:
    """Run a command under a lock: ganger lock NAME -- COMMAND ARGUMENTS. Exits with the command's own code.

    The lock is kept in the store, so all machines that share it have it together. If it is lost, because the store can
    not be reached in time, the command is killed with all that it has started, and this exits with 75. The command
    finds its lock and its epoch as GANGER_LOCK and GANGER_EPOCH.
    """
    import asyncio

    from ganger.cli.holding import check_command
    from ganger.cli.keeper import fork_keeper
    from ganger.runtime.clock import SystemClock

    check_command(given["command"])
    with fork_keeper(SystemClock()) as link:
        sys.exit(asyncio.run(_run(store, given, link)))


async def _run(store: str | None, given: dict[str, Any], link: "socket.socket") -> int:
    from ganger.assembly.coordination import open_coordination
    from ganger.cli.holding import run_under
    from ganger.cli.printing import clean, tell
    from ganger.core.errors import LockBusy

    wait = 0.0 if given["nonblock"] else None if given["wait"] is None else given["wait"] / 1_000
    async with open_coordination(store) as coordination:
        try:
            if given["slots"] is None:
                hold = await coordination.lock(given["name"], ttl=given["ttl"]).acquire(wait)
            else:
                hold = await coordination.semaphore(given["name"], given["slots"], ttl=given["ttl"]).acquire(wait)
        except LockBusy as error:
            tell(f"ganger: {clean(error.message)} [{error.code}]")
            return int(given["busy"])
        return await run_under(hold, given["command"], link)
