"""`ganger backup`: a verified copy of the store while it is used."""

import click

from ganger.cli.opening import find_store, refuse_remote, refuse_served, take_json, take_store
from ganger.cli.printing import print_json
from ganger.cli.words import say_bytes


@click.command()
@take_store
@take_json
@click.argument("target", type=click.Path())
def backup(store: str | None, as_json: bool, target: str) -> None:
    """Copy the store while it is used, and check the copy.

    The copy is the file TARGET, the folder TARGET-blobs with large data, and TARGET-bag-... with tasks that are safe
    and not yet in the file. It is a store itself: look into it with --store sqlite:TARGET.
    """
    import asyncio
    from pathlib import Path

    from ganger.assembly.backup import beside, copy_store
    from ganger.core.errors import BadInput

    refuse_remote(store, "a backup")
    refuse_served(store, "a backup")
    source = find_store(store)
    if source is None:
        raise BadInput("only a store in a file can be copied; this one is in memory")
    copied = asyncio.run(copy_store(source, beside(Path(target))))
    damaged = [str(path) for path in copied.damaged]
    if as_json:
        print_json({"path": target, "bytes": copied.size, "blobs": copied.blobs, "damaged": damaged})
    else:
        click.echo(f"{target}: {say_bytes(copied.size)}, {copied.blobs} blobs; checked")
    if damaged:
        click.echo(f"damaged, and copied as far as it is whole: {', '.join(damaged)}; see ganger doctor", err=True)
