"""Nodes stop, die and come back; the guardian keeps their commands, or ends them in time, and loses no end."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ganger.core.errors import NodeGone
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Crashed, Fail, Killed, Succeed
from ganger.node.guardian.run import GuardedRun
from ganger.node.isolation import Isolation
from ganger.node.spool import SpoolKey
from tests.system.guarded_node import Node
from tests.unit.node.guarded import (
    CLOCK,
    WALLS,
    assign,
    begin,
    command,
    executor,
    guardian_of,
    heard,
    is_alive,
    make_executor,
    shell,
    survivors,
    sweep,
    until,
)
from tests.yardstick import measuring


@asynccontextmanager
async def node(folder: Path, **more: int | Isolation) -> AsyncIterator[Node]:
    """A node in a process of its own; nothing of it is left afterwards."""
    made = await Node.start(folder, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.kill()
        sweep(folder)


async def warm_up(made: Node) -> None:
    """Let the guardian be there: on a busy machine that takes longer than a short lease."""
    await made.begin(1_000_000, "exit 0")
    await made.hear()


@pytest.mark.parametrize("walls", WALLS)
def test_a_stopped_node_does_not_keep_its_commands_alive(tmp_path: Path, walls: Isolation) -> None:
    late: list[int] = []

    async def check() -> None:
        async with node(tmp_path, isolation=walls) as made:
            script = "trap '' TERM; (trap '' TERM; setsid -f sleep 1000); while :; do sleep 1; done"
            await warm_up(made)
            pid, end = await made.begin(1, script, trust=2_000)
            made.signal(signal.SIGSTOP)
            await until(lambda: CLOCK.now() >= end - 800)
            assert is_alive(pid)
            await until(lambda: not survivors(tmp_path))
            late.append(CLOCK.now() - end)
            made.signal(signal.SIGCONT)
            assert await made.hear() == {"task": 1, "outcome": "Release"}

    with measuring(tmp_path) as slowness:
        asyncio.run(check())
    assert late[0] <= 500, slowness


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_no_command_outlives_the_trust_of_a_stopped_node_in_many_stops(tmp_path: Path) -> None:
    stops, late = int(os.environ.get("GANGER_TEST_STOPS", "20")), []

    async def check() -> None:
        async with node(tmp_path) as made:
            await warm_up(made)
            for task in range(1, stops + 1):
                _, end = await made.begin(
                    task, "trap '' TERM; setsid -f sleep 1000; while :; do sleep 1; done", trust=700
                )
                made.signal(signal.SIGSTOP)
                await until(lambda: not survivors(tmp_path))
                late.append(CLOCK.now() - end)
                made.signal(signal.SIGCONT)
                assert await made.hear() == {"task": task, "outcome": "Release"}

    with measuring(tmp_path) as slowness:
        asyncio.run(check())
    half = sorted(late)[len(late) // 2]
    print(f"{stops} stops, dead {half} ms after the end of trust (p50), {max(late)} ms at most; {slowness}")
    assert max(late) <= 500, slowness


@pytest.mark.parametrize("walls", WALLS)
def test_a_new_node_adopts_what_runs_and_what_ended_unheard(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        async with node(tmp_path, isolation=walls) as first:
            await first.begin(1, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 5")
            await first.begin(2, "until [ -e gone ]; do sleep 0.02; done; echo unheard; exit 6")
            await first.begin(3, "echo before; kill -9 $$")
            await first.hear()
            guardian = guardian_of(tmp_path).pid
            await first.kill()
            (tmp_path / "gone").touch()
            async with executor(tmp_path, epoch=2) as second:
                runs = await second.adopt()
                assert [(it.task, it.fence) for it in runs] == [(1, 1), (2, 1), (3, 1)]
                assert guardian_of(tmp_path).pid == guardian
                (tmp_path / "go").touch()
                ends = [await it.ended() for it in runs]
                assert [end.outcome for end in ends] == [
                    Fail(reason="it exited with code 5"),
                    Fail(reason="it exited with code 6"),
                    Fail(137, "it was killed by SIGKILL"),
                ]
                assert [end.data["stdout"] for end in ends] == [b"one\ntwo\n", b"unheard\n", b"before\n"]
                assert await second.adopt() == []
                for it in runs:
                    it.forget()

    asyncio.run(check())


def test_an_adopted_command_can_be_followed_trusted_and_stopped(tmp_path: Path) -> None:
    async def check() -> None:
        async with node(tmp_path) as first:
            await first.begin(1, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; sleep 1000", trust=2_000)
            await first.kill()
            async with executor(tmp_path, epoch=2) as second:
                (adopted,) = await second.adopt()
                adopted.trust(assign(1, b"").trusted_until)
                (tmp_path / "go").touch()
                assert await heard(second, adopted, b"two") == b"one\ntwo\n"
                await adopted.stop("enough")
                assert (await adopted.ended()).outcome == Killed("enough")

    asyncio.run(check())


def test_an_end_is_told_again_until_it_is_forgotten(tmp_path: Path) -> None:
    async def check() -> None:
        first = make_executor(tmp_path)
        ended = await (await begin(first, assign(1, command("true")))).ended()
        await first.close(leave_running=True)
        async with executor(tmp_path, epoch=2) as second:
            (again,) = await second.adopt()
            assert await again.ended() == ended
            again.forget()
        async with executor(tmp_path, epoch=3) as third:
            assert await third.adopt() == []

    asyncio.run(check())


def test_ends_survive_the_death_of_node_and_guardian(tmp_path: Path) -> None:
    async def check() -> None:
        async with node(tmp_path) as first:
            await first.begin(1, "echo kept; exit 4")
            assert await first.hear() == {"task": 1, "outcome": "Fail"}
            pid, _ = await first.begin(2, "setsid -f sleep 1000; while :; do sleep 1; done")
            await first.kill()
            guardian_of(tmp_path).kill()
            async with executor(tmp_path, epoch=2) as second:
                runs = await second.adopt()
                assert [it.task for it in runs] == [1, 2]
                assert not is_alive(pid)
                assert survivors(tmp_path) == []
                ends = [await it.ended() for it in runs]
                assert ends[0].outcome == Fail(reason="it exited with code 4")
                assert ends[0].data == {"result": b"4", "stdout": b"kept\n", "mixedout": b"kept\n"}
                assert ends[1].outcome == Crashed("its guardian was killed, and it was ended")

    asyncio.run(check())


def test_a_node_that_was_overtaken_is_told_so_and_stays_out(tmp_path: Path) -> None:
    async def check() -> None:
        old = make_executor(tmp_path, epoch=1)
        started = await begin(old, assign(1, command("sleep", "1000")))
        async with executor(tmp_path, epoch=2) as new:
            (adopted,) = await new.adopt()
            with pytest.raises(NodeGone, match="epoch 2"):
                await started.ended()
            with pytest.raises(NodeGone):
                await old.start(assign(2, command("true")))
            with pytest.raises(NodeGone, match="epoch 2"):
                await make_executor(tmp_path, epoch=1).start(assign(3, command("true")))
            assert is_alive(adopted.pid)
            await old.close(leave_running=False)
            assert is_alive(adopted.pid)

    asyncio.run(check())


def test_a_broken_connection_is_made_again_and_nothing_is_lost(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            runs = [await begin(made, assign(task, shell("until [ -e go ]; do sleep 0.02; done"))) for task in (1, 2)]
            guardian = guardian_of(tmp_path).pid
            link = made._guardian._link
            assert link is not None
            link.close()
            await link.lost
            runs[0].trust(assign(1, b"").trusted_until)
            (tmp_path / "go").touch()
            assert [(await it.ended()).outcome for it in runs] == [Succeed(b"0")] * 2
            assert guardian_of(tmp_path).pid == guardian

    asyncio.run(check())


def test_output_of_an_adopted_command_is_one_stream(tmp_path: Path) -> None:
    """What it said before, between and after two nodes is there once, in order."""

    async def check() -> None:
        async with node(tmp_path) as first:
            await first.begin(1, "for i in $(seq 400); do echo line $i; sleep 0.002; done")
            await first.kill()
            async with executor(tmp_path, epoch=2) as second:
                (adopted,) = await second.adopt()
                assert isinstance(adopted, GuardedRun)
                assert (await adopted.ended()).outcome == Succeed(b"0")
                reader = second.spool.read_ended(SpoolKey(TaskId(1), Fence(1), "stdout"))
                assert await reader.read() == "".join(f"line {i}\n" for i in range(1, 401)).encode()

    asyncio.run(check())
