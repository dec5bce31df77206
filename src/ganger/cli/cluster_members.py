"""`ganger members`: who is in a cluster, and what each holds."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import take_json, take_store
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import say_time

if TYPE_CHECKING:
    from ganger.coordination.coordination import Coordination

COLUMNS = ("MEMBER", "WORKERS", "PARTITIONS", "UNTIL")


@click.command()
@take_store
@take_json
@click.argument("cluster", default="default")
def members(store: str | None, as_json: bool, cluster: str) -> None:
    """List the members of a cluster, with the partitions that each holds and until when it has last said to be
    there."""
    import asyncio

    found = asyncio.run(_find(store, cluster))
    if as_json:
        for member in found:
            print_json(member)
    elif found:
        rows = [(one["member"], str(one["workers"]), str(one["partitions"]), say_time(one["expire"])) for one in found]
        print_table(COLUMNS, rows)
    else:
        tell(f"the cluster {cluster!r} has no members")


async def _find(store: str | None, cluster: str) -> list[dict[str, Any]]:
    from ganger.assembly.coordination import open_coordination

    async with open_coordination(store) as coordination:
        return await _list(coordination, cluster)


async def _list(coordination: "Coordination", name: str) -> list[dict[str, Any]]:
    from collections import Counter

    cluster = coordination.cluster(name)
    listing = await cluster.partitions.look()
    held = Counter(
        partition.lease.holder for partition in cluster.partitions.read(listing) if partition.lease.expire > listing.at
    )
    own = await coordination.backend.list(cluster.members.prefix, ["expire"])
    expire = {entry.name.removeprefix(cluster.members.prefix): entry.fields.get("expire") for entry in own.entries}
    return [
        {"member": member.id, "workers": member.workers, "partitions": held[member.id], "expire": expire.get(member.id)}
        for member in await cluster.members.list()
    ]
