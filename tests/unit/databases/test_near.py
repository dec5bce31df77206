"""Whoever has units run together may hear when they are about to be durable."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import DuplicateKey, StoreBroken
from ganger.testing import Fault, FaultVfs
from tests.unit.databases.counter import Counted, Line, lines, opened


def test_it_is_told_once_before_the_replies_and_before_the_commit(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen, heard = Counted(), list[int]()
        async with opened(tmp_path / "c.db", probe=seen) as owner:
            commits = seen.count("scribe.committed_before_reply")
            calling = asyncio.ensure_future(
                owner.call_each("submit", [Line("ada", n) for n in range(5)], lambda: heard.append(calling.done()))
            )
            assert await calling == [1, 2, 3, 4, 5]
            assert heard == [False]
            assert seen.count("scribe.committed_before_reply") == commits + 1
            assert await owner.call_each("submit", [], lambda: heard.append(True)) == []
            assert heard == [False]

    asyncio.run(scenario())


def test_who_is_refused_does_not_hear_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard: list[str] = []
        async with opened(tmp_path / "c.db") as owner:
            with pytest.raises(DuplicateKey):
                await owner.call("refuse", Line("ada", 1), lambda: heard.append("refused"))
            assert await owner.call("submit", Line("ada", 1), lambda: heard.append("near")) == 1
            assert heard == ["near"]

    asyncio.run(scenario())


def test_who_hears_it_may_still_hear_that_it_was_not_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard, vfs = list[str](), FaultVfs("near")
        async with opened(tmp_path / "c.db", vfs=vfs.name) as owner:
            vfs.arm(Fault("xSync", error=apsw.SQLITE_IOERR_FSYNC, suffix="-wal"))
            replies = await owner.call_each("submit", [Line("ada", 1)], lambda: heard.append("near"))
            assert [type(reply) for reply in replies] == [StoreBroken]
            assert heard == ["near"]
            assert await owner.read(lines) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("operation", ["submit", "refuse"])
def test_one_that_is_run_in_another_process_is_not_told_of(tmp_path: Path, operation: str) -> None:
    async def scenario() -> None:
        heard: list[str] = []
        async with opened(tmp_path / "c.db"), opened(tmp_path / "c.db") as client:
            (reply,) = await client.call_each(operation, [Line("ada", 1)], lambda: heard.append("near"))
            assert isinstance(reply, DuplicateKey) if operation == "refuse" else reply == 1
            assert not heard

    asyncio.run(scenario())
