"""Units that wait for a topic, and are run in the very transaction that wakes it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import DuplicateKey, StoreBroken
from ganger.databases.sqlite.shared import SharedFile
from ganger.databases.sqlite.standing import Standing
from ganger.databases.sqlite.unit import Called, Outcome, Unit
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
    standing, loop = Standing(), asyncio.new_event_loop()
    waiter = Called(loop, lambda _: None)
    take_back = standing.add(["a", "b"], "settle", None, waiter)
    assert standing.take(["c"]) == []
    (stood,) = standing.take(["b", "c"])
    assert stood.unit == Unit("settle", None, waiter)
    assert not take_back()
    standing.put_back([stood])
    assert take_back()
    assert standing.take(["a"]) == []
    loop.close()


class Hurried:
    """Keeps what it hears of a unit, and on which thread; it may refuse to hear."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.heard: list[tuple[str, object]] = []
        self.threads: set[int] = set()
        self._refuses = refuses

    def _hear(self, word: str, value: object) -> None:
        self.heard.append((word, value))
        self.threads.add(threading.get_ident())
        if self._refuses:
            raise RuntimeError(word)

    def near(self, outcome: Outcome) -> None:
        self._hear("near", outcome.value)

    def safe(self, outcome: Outcome) -> None:
        self._hear("safe", outcome.value)

    def void(self) -> None:
        self._hear("void", None)


def stand_in_haste(file: SharedFile, haste: Hurried) -> None:
    told = lambda outcome: haste.heard.append(("told", outcome.value))  # noqa: E731
    file.stand("settle", Line("bob", 1), ["line:ada"], told, haste)


def test_who_is_in_haste_hears_before_and_after_the_commit_on_the_thread_that_serves(tmp_path: Path) -> None:
    async def scenario() -> None:
        haste = Hurried()
        async with opened(tmp_path / "c.db") as owner:
            stand_in_haste(owner, haste)
            await owner.call("submit", Line("ada", 1))
            await asyncio.sleep(0)
            assert haste.heard == [("near", 2), ("safe", 2), ("told", 2)]
            assert threading.get_ident() not in haste.threads

    asyncio.run(scenario())


def test_who_is_in_haste_hears_that_the_commit_failed_and_the_unit_stands_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        haste, vfs = Hurried(), FaultVfs("haste")
        async with opened(tmp_path / "c.db", vfs=vfs.name) as owner:
            stand_in_haste(owner, haste)
            vfs.arm(Fault("xSync", error=apsw.SQLITE_IOERR_FSYNC, suffix="-wal"))
            with pytest.raises(StoreBroken):
                await owner.call("submit", Line("ada", 1))
            assert haste.heard == [("near", 2), ("void", None)]
            await owner.call("submit", Line("ada", 2))
            await asyncio.sleep(0)
            assert [word for word, _ in haste.heard[2:]] == ["near", "safe", "told"]

    asyncio.run(scenario())


def test_whose_haste_fails_harms_nobody(tmp_path: Path) -> None:
    failures: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        haste = Hurried(refuses=True)
        async with opened(tmp_path / "c.db") as owner:
            stand_in_haste(owner, haste)
            assert await owner.call("submit", Line("ada", 1)) == 1
            assert await owner.read(lines) == [("ada", 1), ("bob", 1)]

    asyncio.run(scenario())
    assert [str(failure) for failure in failures] == ["near", "safe"]


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
