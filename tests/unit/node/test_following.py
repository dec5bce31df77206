"""What an attempt writes goes to the store as it comes while somebody follows it, and each byte of it once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from ganger.core.errors import StoreUnavailable
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Succeed
from ganger.engine.store import Note
from ganger.node.executor import Assignment
from ganger.node.spool import LARGEST, Bell, Signal, Spool, SpoolKey, SpoolWriter
from tests.unit.node.guarded import until
from tests.unit.node.staffed import PATIENCE, Hall, HandExecutor, HandRun, enact

pytestmark = pytest.mark.slow

TOKEN = "secret"


class LiveRun(HandRun):
    """An attempt that writes to its standard output."""

    def __init__(self, assignment: Assignment, spool: Spool) -> None:
        super().__init__(assignment)
        self._bells = {name: Bell() for name in ("stdout", "stderr", "mixedout")}
        self._writer: SpoolWriter = spool.write(SpoolKey(self.task, self.fence, "stdout"), self._bells["stdout"])
        self._said = b""

    def signal(self, stream: str) -> Signal:
        return self._bells[stream]

    def say(self, body: bytes) -> None:
        self._said += body
        self._writer.write(body)

    def leave(self, *, small: bool = True) -> None:
        self._writer.close()
        self.finish(Succeed(), data={"stdout": self._said} if small else {}, streams=("stdout",))


class LiveExecutor(HandExecutor):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.spool = self._place = Spool(folder, 1 << 30)

    async def start(self, assignment: Assignment) -> LiveRun:
        run = self.runs[assignment.claimed.id] = LiveRun(assignment, self._place)
        return run

    async def one(self) -> LiveRun:
        (run,) = await self.running(1)
        assert isinstance(run, LiveRun)
        return run


async def follow(hall: Hall, task: TaskId, length: int = 60_000) -> None:
    assert await hall.engine.write([Note(task, Fence(0), follow=length)]) == []


async def stored(hall: Hall, task: TaskId, stream: str = "stdout") -> bytes:
    return (await hall.engine.read_output(task, stream, 0, 1 << 20)).body


async def has_stored(hall: Hall, task: TaskId, body: bytes) -> None:
    async with asyncio.timeout(PATIENCE):
        while await stored(hall, task) != body:  # noqa: ASYNC110 - any statement may change it
            await asyncio.sleep(0.005)


async def begin(hall: Hall, hand: LiveExecutor, **options: Any) -> tuple[TaskId, LiveRun]:
    """A node that runs a task."""
    await hall.node(hand, **options).start()
    (task,) = await hall.submit()
    return task, await hand.one()


async def begin_and_leave(hall: Hall, hand: LiveExecutor, length: int = 60_000) -> tuple[TaskId, LiveRun]:
    """A task that was followed for a line, and that its node left running."""
    first = hall.node(hand, token=TOKEN)
    await first.start()
    (task,) = await hall.submit()
    await follow(hall, task, length)
    run = await hand.one()
    run.say(b"one\n")
    await has_stored(hall, task, b"one\n")
    await first.stop(leave_running=True)
    return task, run


def stage(tmp_path: Path, scenario: Callable[[Hall, LiveExecutor], Awaitable[None]]) -> None:
    enact(lambda hall: scenario(hall, LiveExecutor(tmp_path)))


def test_nothing_is_stored_before_the_end_while_nobody_follows(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand, lease=300)
        run.say(b"one\n")
        beats = hall.store.asked["configure"]
        await until(lambda: hall.store.asked["configure"] > beats + 2)
        assert await stored(hall, task) == b""
        run.leave()
        await has_stored(hall, task, b"one\n")

    stage(tmp_path, scenario)


def test_what_is_followed_is_stored_as_it_comes_and_its_end_with_the_settle(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand)
        run.say(b"one\n")
        await follow(hall, task)
        await has_stored(hall, task, b"one\n")
        run.say(b"two\n")
        await has_stored(hall, task, b"one\ntwo\n")
        run.say(b"three\n")
        run.leave()
        assert await read_all(hall, task) == b"one\ntwo\nthree\n"
        assert [start for start, _ in await find_chunks(hall, task)] == [0, 4, 8]

    stage(tmp_path, scenario)


def test_a_task_that_was_followed_before_it_was_taken_is_live_from_its_first_byte(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        (task,) = await hall.submit()
        await follow(hall, task)
        await hall.node(hand).start()
        run = await hand.one()
        run.say(b"at once\n")
        await has_stored(hall, task, b"at once\n")

    stage(tmp_path, scenario)


def test_a_long_stream_of_which_some_was_followed_is_stored_once(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand)
        await follow(hall, task)
        run.say(b"a" * 100_000)
        await has_stored(hall, task, b"a" * 100_000)
        run.say(b"b" * 100_000)
        run.leave(small=False)
        assert await read_all(hall, task) == b"a" * 100_000 + b"b" * 100_000
        assert await find_chunks(hall, task) == [(0, 100_000), (100_000, 100_000)]

    stage(tmp_path, scenario)


@pytest.mark.parametrize("size", [100_000, LARGEST + 1], ids=["at once", "aside"])
def test_what_is_stored_is_removed_from_the_spool(tmp_path: Path, size: int) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand)
        run.say(b"a" * size)
        run.leave(small=False)
        assert len(await read_all(hall, task)) == size
        await until(lambda: not list(tmp_path.iterdir()))

    stage(tmp_path, scenario)


def test_shipping_ends_when_nobody_follows_any_more(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand, lease=1_500)
        await follow(hall, task, 1_000)
        run.say(b"one\n")
        await has_stored(hall, task, b"one\n")
        beats = hall.store.asked["configure"]
        await until(lambda: hall.store.asked["configure"] > beats + 4)
        run.say(b"two\n")
        await until(lambda: hall.store.asked["configure"] > beats + 8)
        assert await stored(hall, task) == b"one\n"
        run.leave()
        assert await read_all(hall, task) == b"one\ntwo\n"

    stage(tmp_path, scenario)


def test_the_next_node_goes_on_where_the_store_is(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin_and_leave(hall, hand)
        run.say(b"two\n")
        await hall.node(hand, token=TOKEN).start()
        await has_stored(hall, task, b"one\ntwo\n")
        run.say(b"three\n")
        run.leave()
        assert await read_all(hall, task) == b"one\ntwo\nthree\n"
        assert [start for start, _ in await find_chunks(hall, task)] == [0, 4, 8]

    stage(tmp_path, scenario)


def test_the_next_node_stores_the_rest_also_if_nobody_follows_any_more(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin_and_leave(hall, hand, 300)
        run.say(b"two\n")
        run.leave()
        await hall.node(hand, token=TOKEN).start()
        assert await read_all(hall, task) == b"one\ntwo\n"
        assert await find_chunks(hall, task) == [(0, 4), (4, 4)]

    stage(tmp_path, scenario)


def test_a_store_that_does_not_answer_makes_neither_a_gap_nor_a_double(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand)
        await follow(hall, task)
        run.say(b"one\n")
        await has_stored(hall, task, b"one\n")
        hall.store.gates["write"] = asyncio.Event()
        hall.store.entered.clear()
        run.say(b"two\n")
        await hall.store.entered.wait()
        run.say(b"three\n")
        run.leave()
        hall.store.gates.pop("write").set()
        assert await read_all(hall, task) == b"one\ntwo\nthree\n"
        assert sum(size for _, size in await find_chunks(hall, task)) == len(b"one\ntwo\nthree\n")

    stage(tmp_path, scenario)


def test_a_piece_is_sent_again_until_it_is_answered(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand)
        await follow(hall, task)
        await until(lambda: hall.store.asked["look"] > 0)
        hall.store.faults["write"] = StoreUnavailable("not now")
        asked = hall.store.asked["write"]
        run.say(b"one\n")
        await until(lambda: hall.store.asked["write"] > asked + 1)
        del hall.store.faults["write"]
        await has_stored(hall, task, b"one\n")

    stage(tmp_path, scenario)


def test_an_attempt_that_is_stopped_while_it_is_followed_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        node = hall.node(hand)
        await node.start()
        (task,) = await hall.submit()
        await follow(hall, task)
        run = await hand.one()
        run.say(b"one\n")
        await has_stored(hall, task, b"one\n")
        await hall.engine.kill([task], by="test")
        await until(lambda: run.forgotten)
        assert node.carrier.hands.is_empty
        assert not [job for job in asyncio.all_tasks() if job.get_name().startswith("ship")]

    stage(tmp_path, scenario)


def test_who_begins_to_follow_while_the_end_is_stored_is_not_sent_it_again(tmp_path: Path) -> None:
    async def scenario(hall: Hall, hand: LiveExecutor) -> None:
        task, run = await begin(hall, hand, lease=300)
        run.say(b"all of it")
        door = hall.store.doors["write"] = asyncio.Event()
        run.leave(small=False)
        await hall.store.entered.wait()
        memory: Any = hall.store
        await memory._store.write((Note(task, Fence(0), follow=60_000),))
        beats = hall.store.asked["configure"]
        await until(lambda: hall.store.asked["configure"] > beats + 2)
        assert not [job for job in asyncio.all_tasks() if job.get_name().startswith("ship")]
        del hall.store.doors["write"]
        door.set()
        assert await read_all(hall, task) == b"all of it"

    stage(tmp_path, scenario)


async def read_all(hall: Hall, task: TaskId) -> bytes:
    """What somebody who follows is given, to the end."""
    async with aclosing(hall.engine.follow_output(task, ["stdout"])) as pieces:
        return b"".join([piece.body async for piece in pieces])


async def find_chunks(hall: Hall, task: TaskId) -> list[tuple[int, int]]:
    """Where each piece that the store has begins, and how long it is."""
    memory: Any = hall.store
    chunks = memory._store._tables.chunks.values()
    return sorted((chunk.start, chunk.size) for key, chunk in chunks if key.task == task)
