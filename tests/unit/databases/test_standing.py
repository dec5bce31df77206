"""Units that wait for a topic, and are run in the very transaction that wakes it."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import DuplicateKey, StoreBroken
from ganger.databases.sqlite.standing import Standing
from ganger.databases.sqlite.unit import Blocked, Unit
from ganger.testing import Fault, FaultVfs
from tests.unit.databases.counter import Counted, Line, lines, opened


def test_a_standing_unit_is_run_once_in_the_commit_that_wakes_its_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen = Counted()
        async with opened(tmp_path / "c.db", probe=seen) as owner:
            reply, take_back = owner.stand("settle", Line("bob", 1), ["line:ada"])
            await owner.call("submit", Line("eve", 1))
            assert not reply.done()
            commits = seen.count("scribe.committed_before_reply")
            await owner.call("submit", Line("ada", 1))
            assert await reply == 3
            assert seen.count("scribe.committed_before_reply") == commits + 1
            assert not take_back()
            await owner.call("submit", Line("ada", 2))
            assert await owner.read(lines) == [("eve", 1), ("ada", 1), ("bob", 1), ("ada", 2)]

    asyncio.run(scenario())


def test_one_that_is_taken_back_or_stands_with_another_process_is_not_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db") as client:
            gone, take_back = owner.stand("settle", Line("bob", 1), ["line:ada"])
            far, _ = client.stand("settle", Line("bob", 2), ["line:ada"])
            assert take_back()
            assert not take_back()
            await client.call("submit", Line("ada", 1))
            await client.call("submit", Line("ada", 2))
            assert not gone.done()
            assert not far.done()
            assert await owner.read(lines) == [("ada", 1), ("ada", 2)]

    asyncio.run(scenario())


def test_one_that_fails_harms_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            reply, _ = owner.stand("refuse", Line("bob", 1), ["line:ada"])
            assert await owner.call("submit", Line("ada", 1)) == 1
            with pytest.raises(DuplicateKey, match="bob is taken"):
                await reply
            assert await owner.read(lines) == [("ada", 1)]

    asyncio.run(scenario())


def test_one_whose_group_was_lost_stands_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        vfs = FaultVfs("standing")
        async with opened(tmp_path / "c.db", vfs=vfs.name) as owner:
            reply, _ = owner.stand("settle", Line("bob", 1), ["line:ada"])
            vfs.arm(Fault("xSync", error=apsw.SQLITE_IOERR_FSYNC, suffix="-wal"))
            with pytest.raises(StoreBroken):
                await owner.call("submit", Line("ada", 1))
            assert not reply.done()
            await owner.call("submit", Line("ada", 2))
            assert await reply
            assert await owner.read(lines) == [("ada", 2), ("bob", 1)]

    asyncio.run(scenario())


def test_a_unit_is_taken_by_one_side_alone() -> None:
    standing = Standing()
    unit = Unit("settle", None, Blocked())
    take_back = standing.add(["a", "b"], unit)
    assert standing.take(["c"]) == []
    (stood,) = standing.take(["b", "c"])
    assert stood.unit is unit
    assert not take_back()
    standing.put_back([stood])
    assert take_back()
    assert standing.take(["a"]) == []
