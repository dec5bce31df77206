"""`ganger restore`: a backup becomes the store."""

import click

from ganger.cli.opening import locate_store, refuse_remote, refuse_served, take_json, take_store
from ganger.cli.printing import print_json
from ganger.cli.words import say_bytes


@click.command()
@take_store
@take_json
@click.argument("source", type=click.Path())
def restore(store: str | None, as_json: bool, source: str) -> None:
    """Copy the backup SOURCE to where the store belongs. Stop every node first, and move the old store away.

    A store that is there is never replaced.
    """
    import asyncio
    from pathlib import Path

    from ganger.assembly.backup import beside, copy_store
    from ganger.core.errors import BadInput

    refuse_remote(store, "a restore")
    refuse_served(store, "a restore")
    target = locate_store(store)
    if target is None:
        raise BadInput("only a store in a file can be restored; this one is in memory")
    copied = asyncio.run(copy_store(beside(Path(source)), target))
    damaged = [str(path) for path in copied.damaged]
    if as_json:
        print_json({"path": str(target.database), "bytes": copied.size, "blobs": copied.blobs, "damaged": damaged})
    else:
        click.echo(f"{target.database}: {say_bytes(copied.size)}, {copied.blobs} blobs; checked")
    if damaged:
        click.echo(f"damaged, and copied as far as it is whole: {', '.join(damaged)}; see ganger doctor", err=True)
