"""Output is read as it comes: every byte once, attempt by attempt, until the task has ended."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from ganger.core.errors import BadName, BadNumber, TaskNotFound
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Release, Succeed
from ganger.core.task import Claimed
from ganger.engine import live
from ganger.engine.engine import Engine
from ganger.engine.live import Heard
from tests.unit.engine.stage import Stage, play


async def read_all(engine: Engine, task: TaskId, **wanted: Any) -> list[tuple[int, str, bytes]]:
    return [(one.fence, one.stream, one.body) async for one in engine.follow_output(task, **wanted)]


async def hold(stage: Stage) -> Claimed:
    await stage.submit_many(1)
    return await stage.take_one(start=True)


def test_what_is_there_and_what_comes_is_read_until_the_task_has_ended() -> None:
    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        await stage.engine.append_output(held.lease, "stdout", 0, b"one\n")
        async with aclosing(stage.engine.follow_output(held.id)) as pieces:
            assert await anext(pieces) == Heard(held.fence, "stdout", 0, b"one\n")
            coming = asyncio.ensure_future(anext(pieces))
            await stage.engine.append_output(held.lease, "stderr", 0, b"oops\n")
            assert await coming == Heard(held.fence, "stderr", 0, b"oops\n")
            await stage.engine.append_output(held.lease, "stdout", 4, b"two\n")
            await stage.engine.settle([(held, Succeed())])
            assert [piece async for piece in pieces] == [Heard(held.fence, "stdout", 4, b"two\n")]

    play(scenario)


def test_a_reader_says_that_it_follows_and_says_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "AGAIN", 0.02)

    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        reading = asyncio.ensure_future(read_all(stage.engine, held.id))
        while stage.store.asked["write"] < 3:  # noqa: ASYNC110 - the store counts, and tells nobody
            await asyncio.sleep(0.005)
        beaten = await stage.engine.nodes.beat(stage.node.id, "token of ada")
        assert beaten.followed == (held.id,)
        await stage.engine.settle([(held, Succeed())])
        assert await reading == []

    play(scenario)


def test_a_late_reader_begins_where_it_likes() -> None:
    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        for start, body in ((0, b"0123"), (4, b"4567")):
            await stage.engine.append_output(held.lease, "stdout", start, body)
        await stage.engine.settle([(held, Succeed())])
        assert await read_all(stage.engine, held.id) == [(1, "stdout", b"01234567")]
        assert await read_all(stage.engine, held.id, start=6) == [(1, "stdout", b"67")]
        assert await read_all(stage.engine, held.id, start=8) == []

    play(scenario)


def test_attempts_are_read_one_after_the_other() -> None:
    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        reading = asyncio.ensure_future(read_all(stage.engine, held.id))
        await stage.engine.append_output(held.lease, "stdout", 0, b"first")
        await stage.engine.settle([(held, Release())])
        again = await stage.take_one(start=True)
        await stage.engine.append_output(again.lease, "stdout", 0, b"second")
        await stage.engine.settle([(again, Succeed())])
        assert await reading == [(held.fence, "stdout", b"first"), (again.fence, "stdout", b"second")]
        assert await read_all(stage.engine, held.id) == [(again.fence, "stdout", b"second")]
        assert await read_all(stage.engine, held.id, fence=held.fence) == [(held.fence, "stdout", b"first")]

    play(scenario)


def test_an_attempt_that_said_nothing_does_not_hide_the_one_before() -> None:
    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        await stage.engine.append_output(held.lease, "stdout", 0, b"first")
        await stage.engine.settle([(held, Release())])
        await stage.engine.settle([(await stage.take_one(start=True), Succeed())])
        assert await read_all(stage.engine, held.id) == [(held.fence, "stdout", b"first")]

    play(scenario)


def test_only_the_streams_that_are_wanted_are_read() -> None:
    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        for stream in ("stdout", "stderr", "mixedout"):
            await stage.engine.append_output(held.lease, stream, 0, stream.encode())
        await stage.engine.settle([(held, Succeed())])
        assert await read_all(stage.engine, held.id, streams=["stderr"]) == [(1, "stderr", b"stderr")]
        assert [stream for _, stream, _ in await read_all(stage.engine, held.id)] == ["stdout", "stderr"]

    play(scenario)


def test_a_long_stream_comes_in_bounded_pieces() -> None:
    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        await stage.engine.append_output(held.lease, "stdout", 0, b"x" * (live.PIECE + 1))
        await stage.engine.settle([(held, Succeed())])
        assert [len(body) for *_, body in await read_all(stage.engine, held.id)] == [live.PIECE, 1]

    play(scenario)


def test_bad_wishes_are_refused() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        with pytest.raises(TaskNotFound):
            await read_all(stage.engine, TaskId(99))
        with pytest.raises(BadNumber):
            await read_all(stage.engine, task, start=-1)
        with pytest.raises(BadName):
            await read_all(stage.engine, task, streams=["a\nb"])
        with pytest.raises(BadName):
            await read_all(stage.engine, task, streams=[""], fence=Fence(1))

    play(scenario)


def test_a_reader_that_misses_every_wake_up_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "AGAIN", 0.05)

    async def scenario(stage: Stage) -> None:
        held = await hold(stage)
        stage.store.deaf = True
        reading = asyncio.ensure_future(read_all(stage.engine, held.id))
        await stage.engine.append_output(held.lease, "stdout", 0, b"unheard")
        await stage.engine.settle([(held, Succeed())])
        assert await reading == [(1, "stdout", b"unheard")]

    play(scenario)
