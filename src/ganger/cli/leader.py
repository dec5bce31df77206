"""`ganger leader`: who leads, or run a command for as long as this machine does."""

import sys
from typing import TYPE_CHECKING

import click

from ganger.cli.lock import take_ttl
from ganger.cli.opening import take_json, take_store
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import say_time

if TYPE_CHECKING:
    import socket

    from ganger.coordination.election import Reign

COLUMNS = ("LEADER", "HOLDER", "UNTIL")


@click.command()
@take_store
@take_json
@take_ttl
@click.argument("name", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def leader(store: str | None, as_json: bool, ttl: int, name: str | None, command: tuple[str, ...]) -> None:
    """Show who leads; or lead: ganger leader NAME -- COMMAND ARGUMENTS.

    With a command this waits until it leads, runs the command, and exits as `ganger lock` does. Without one it shows
    the leader of this name, or all of them, and exits with 3 if nobody leads.
    """
    import asyncio

    if name is not None and command:
        from ganger.cli.keeper import fork_keeper
        from ganger.runtime.clock import SystemClock

        with fork_keeper(SystemClock()) as link:
            sys.exit(asyncio.run(_lead(store, name, command, ttl=ttl, link=link)))
    reigns = asyncio.run(_find(store, name))
    led = [(found, reign) for found, reign in reigns if reign.holder]
    if as_json:
        for found, reign in led:
            print_json({"leader": found, "holder": reign.holder, "expire": reign.expire})
    elif led:
        print_table(COLUMNS, [(found, reign.holder, say_time(reign.expire)) for found, reign in led])
    else:
        tell("nobody leads" if name is None else f"nobody leads {name!r}")
    if name is not None and not led:
        sys.exit(3)


async def _find(store: str | None, name: str | None) -> "list[tuple[str, Reign]]":
    from ganger.assembly.coordination import open_coordination

    async with open_coordination(store) as coordination:
        if name is None:
            return list(await coordination.list_leaders())
        return [(name, await coordination.find_leader(name))]


async def _lead(store: str | None, name: str, command: tuple[str, ...], *, ttl: int, link: "socket.socket") -> int:
    from ganger.assembly.coordination import open_coordination
    from ganger.cli.holding import run_under

    async with open_coordination(store) as coordination:
        hold = await coordination.leader(name, ttl=ttl).acquire(None, eager=False)
        return await run_under(hold, command, link)
