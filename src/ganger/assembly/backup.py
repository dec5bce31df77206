"""A store is copied whole, database and large data, while it is used; and a copy becomes a store again.

The copy is a store itself: `sqlite:<copy>` opens it. Large data is copied before the database and again after it. What
a row of the copy names was there when the database was copied; it was copied before, or it is younger than that, and
nothing so young is ever collected: so the second pass finds it. The bags, with letters that are safe and not yet in the
database, are copied before it too.
"""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from ganger.assembly.location import Location
from ganger.core.errors import BlobMissing, GangerError, NotFound
from ganger.databases.sqlite.copying import copy_with_bags, refuse_leftovers
from ganger.engine.blob import BlobRef, Blobs
from ganger.engine.blobs.files import FileBlobs
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy


class Copied(NamedTuple):
    """The bytes of the database, how many pieces of large data came with it, and the bags that are damaged."""

    size: int
    blobs: int
    damaged: list[Path]


def beside(database: Path) -> Location:
    """Where a copy has its files: the large data is always beside the database."""
    return Location(database, database.with_name(f"{database.name}-blobs"))


async def copy_store(source: Location, target: Location) -> Copied:
    """Copy a store to a place where none is. Verified, and durable when it returns.

    Raises NotFound, Conflict if something is there or left of another store, BlobCorrupt for damaged large data, and
    StoreError.
    """
    if not source.database.is_file():
        raise NotFound(f"there is no store at {source.database}", path=str(source.database))
    refuse_leftovers(target.database)
    count = 0
    if source.blobs.is_dir():
        count += await _copy_blobs(source.blobs, target.blobs)
    size, damaged = await asyncio.to_thread(copy_with_bags, source.database, target.database)
    if source.blobs.is_dir():
        count += await _copy_blobs(source.blobs, target.blobs)
    return Copied(size, count, damaged)


async def _copy_blobs(source: Path, target: Path) -> int:
    there, here = await _open(source), await _open(target)
    copied = 0
    async for name in there.list():
        size = await there.size(name)
        if size is None or await here.size(name) == size:
            continue
        await _copy_blob(there, here, BlobRef(name, size))
        copied += 1
    return copied


async def find_damaged_blobs(folder: Path) -> tuple[int, list[str]]:
    """Read all large data in a folder: how many pieces there are, and which are not as they were written."""
    blobs, count = await _open(folder), 0
    damaged: list[str] = []
    async for name in blobs.list():
        count += 1
        try:
            await blobs.verify(name)
        except BlobMissing:
            continue  # collected meanwhile
        except GangerError:
            damaged.append(str(name))
    return count, damaged


async def _open(folder: Path) -> Blobs:
    return await FileBlobs.open(folder, SystemClock(), SystemEntropy())


async def _copy_blob(there: Blobs, here: Blobs, ref: BlobRef) -> None:
    async with aclosing(there.read(ref)) as pieces:
        await here.put(pieces)
