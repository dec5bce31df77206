"""Threads that block until they are answered, and take their answers in by themselves."""

import asyncio
import threading
from pathlib import Path

import pytest

from ganger.core.errors import DuplicateKey
from ganger.databases.sqlite import SharedFile
from tests.unit.databases.counter import Line, lines, opened


def write_some(shared: SharedFile, who: str, many: int) -> list[int]:
    return [shared.call_blocking("submit", Line(who, n)) for n in range(many)]


def test_a_thread_that_blocks_is_answered_by_an_owner_elsewhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db"), opened(tmp_path / "c.db") as client:
            assert await asyncio.to_thread(write_some, client, "ada", 50) == list(range(1, 51))
            with pytest.raises(DuplicateKey, match="ada is taken"):
                await asyncio.to_thread(client.call_blocking, "refuse", Line("ada", 3))

    asyncio.run(scenario())


def test_a_thread_that_blocks_takes_in_the_answers_of_others_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db") as client:
            told = asyncio.Event()
            client.listen(["line:bob"], lambda _: told.set())
            blocking = [asyncio.to_thread(write_some, client, f"thread {n}", 100) for n in range(3)]
            awaited = [client.call("submit", Line("bob", n)) for n in range(100)]
            totals = await asyncio.gather(*blocking, *awaited)
            await asyncio.wait_for(told.wait(), 60)
            assert len(totals) == 103
            assert len(await owner.read(lines)) == 400

    asyncio.run(scenario())


def test_a_thread_that_blocks_is_answered_by_the_next_owner(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as client:
            for _ in range(5):
                await move_to_other_owner(tmp_path / "c.db", client)

    asyncio.run(scenario())


async def move_to_other_owner(path: Path, client: SharedFile) -> None:
    """Write without a pause while another process of higher rank takes the file and gives it back."""
    before = len(await client.read(lines))
    stop = threading.Event()
    written: list[int] = []

    def write_on() -> None:
        while not stop.is_set():
            written.append(client.call_blocking("submit", Line("ada", len(written))))

    writing = asyncio.create_task(asyncio.to_thread(write_on))
    try:
        async with opened(path, rank=2) as other:
            assert other.owns
            seen = len(written)
            async with asyncio.timeout(60):
                while len(written) < seen + 20:  # noqa: ASYNC110 - another thread counts
                    await asyncio.sleep(0.001)
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await writing
    assert len(await client.read(lines)) == before + len(written)
