"""What a job carries, in files of a folder of its own: the payload as it comes, the result as it goes."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO, Final

_PIECE: Final = 1 << 20

Folder = tempfile.TemporaryDirectory[str]


async def receive(first: Any, rest: AsyncIterator[Any]) -> Folder:
    """The folder with the payload, when all of it has come."""
    folder = tempfile.TemporaryDirectory(prefix="ganger-job-")
    try:
        with _create(find_payload(folder)) as file:
            file.write(first)
            async for piece in rest:
                await asyncio.to_thread(file.write, piece)
    except BaseException:
        folder.cleanup()
        raise
    return folder


def find_payload(folder: Folder) -> Path:
    return Path(folder.name, "payload")


def find_result(folder: Folder) -> Path:
    return Path(folder.name, "result")


def load(result: Path) -> bytes | AsyncGenerator[bytes, None]:
    """The result as a message is made of it: whole if it is small, else piece by piece."""
    return _read(result) if result.stat().st_size > _PIECE else result.read_bytes()


def _create(file: Path) -> BinaryIO:
    return open(file, "wb")


async def _read(file: Path) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(open, file, "rb") as opened:
        while piece := await asyncio.to_thread(opened.read, _PIECE):
            yield piece
