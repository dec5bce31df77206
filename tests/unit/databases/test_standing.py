"""Units that wait for a topic, and are run in the very transaction that wakes it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import DuplicateKey, StoreBroken
from ganger.databases.sqlite.shared import SharedFile
from ganger.databases.sqlite.standing import Standing
from ganger.databases.sqlite.unit import Blocked, Outcome, Unit
from ganger.testing import Fault, FaultVfs
from tests.unit.databases.counter import Counted, Line, lines, opened


def stand(file: SharedFile, operation: str, request: Line) -> tuple[asyncio.Future[Outcome], Callable[[], bool]]:
    """Leave a unit that waits for ada: what becomes of it, and what takes it back."""
    outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    return outcome, file.stand(operation, request, ["line:ada"], outcome.set_result)


def test_a_standing_unit_is_run_once_in_the_commit_that_wakes_its_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen = Counted()
        async with opened(tmp_path / "c.db", probe=seen) as owner:
            reply, take_back = stand(owner, "settle", Line("bob", 1))
            await owner.call("submit", Line("eve", 1))
            assert not reply.done()
            commits = seen.count("scribe.committed_before_reply")
            await owner.call("submit", Line("ada", 1))
            assert (await reply).value == 3
            assert seen.count("scribe.committed_before_reply") == commits + 1
            assert not take_back()
            await owner.call("submit", Line("ada", 2))
            assert await owner.read(lines) == [("eve", 1), ("ada", 1), ("bob", 1), ("ada", 2)]

    asyncio.run(scenario())


def test_one_that_is_taken_back_or_stands_with_another_process_is_not_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db") as client:
            gone, take_back = stand(owner, "settle", Line("bob", 1))
            far, _ = stand(client, "settle", Line("bob", 2))
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
            reply, _ = stand(owner, "refuse", Line("bob", 1))
            assert await owner.call("submit", Line("ada", 1)) == 1
            assert isinstance((await reply).error, DuplicateKey)
            assert await owner.read(lines) == [("ada", 1)]

    asyncio.run(scenario())


def test_one_whose_group_was_lost_stands_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        vfs = FaultVfs("standing")
        async with opened(tmp_path / "c.db", vfs=vfs.name) as owner:
            reply, _ = stand(owner, "settle", Line("bob", 1))
            vfs.arm(Fault("xSync", error=apsw.SQLITE_IOERR_FSYNC, suffix="-wal"))
            with pytest.raises(StoreBroken):
                await owner.call("submit", Line("ada", 1))
            assert not reply.done()
            await owner.call("submit", Line("ada", 2))
            assert (await reply).value
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


def test_one_whose_answer_cannot_be_taken_in_keeps_nobody_from_his(tmp_path: Path) -> None:
    failures: list[object] = []

    def refuse(_: Outcome) -> None:
        raise RuntimeError("no")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        async with opened(tmp_path / "c.db") as owner:
            owner.stand("settle", Line("bob", 1), ["line:ada"], refuse)
            assert await owner.call("submit", Line("ada", 1)) == 1
            assert await owner.read(lines) == [("ada", 1), ("bob", 1)]

    asyncio.run(scenario())
    assert [str(failure) for failure in failures] == ["no"]


def test_the_answer_comes_before_the_wake_up(tmp_path: Path) -> None:
    heard: list[object] = []

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            owner.listen(["line:ada"], heard.append)
            owner.stand("settle", Line("bob", 1), ["line:ada"], lambda outcome: heard.append(outcome.value))
            await owner.call("submit", Line("ada", 1))
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert heard == [2, "line:ada"]
