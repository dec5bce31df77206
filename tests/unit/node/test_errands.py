"""Commands of conditions under a real guardian: answers, time, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL

import pytest

from ganger.core.errors import BadInput, StoreUnavailable
from ganger.node.errands import Errands, judge
from ganger.node.guardian.launch import Post
from ganger.node.guardian.messages import End
from ganger.node.guardian.remote import Guardian
from ganger.runtime.entropy import SystemEntropy
from ganger.wire.specs import CommandExits
from tests.unit.node.guarded import CLOCK, PATH, PATIENCE, Diary, guardian_of, survivors, sweep, until

pytestmark = pytest.mark.slow


def make(folder: Path, epoch: int = 1) -> Errands:
    guardian = Guardian(Post(folder / "run"), epoch, SystemEntropy())
    environment = {"PATH": PATH, "HOME": str(folder), "GANGER_STORE": "memory:"}
    return Errands(guardian, CLOCK, Diary(), epoch=epoch, environment=environment, folder=folder)


@asynccontextmanager
async def opened(folder: Path, epoch: int = 1) -> AsyncIterator[Errands]:
    made = make(folder, epoch)
    try:
        async with asyncio.timeout(PATIENCE):
            await made.open()
            yield made
            await made.close()
    finally:
        sweep(folder)


def bash(script: str, timeout: int = 30_000) -> CommandExits:
    return CommandExits(["bash", "-c", script], timeout)


STAYS = "setsid sleep 60 & trap '' TERM; echo began > began; while :; do sleep 60; done"


def test_a_command_answers_with_its_exit_code_and_leaves_no_output(tmp_path: Path) -> None:
    async def run() -> list[int]:
        async with opened(tmp_path) as errands:
            scripts = ("exit 0", "echo much; exit 3", "kill -9 $$", f'[ "$PWD $GANGER_STORE" = "{tmp_path} memory:" ]')
            codes = [await errands.run(bash(script)) for script in scripts]
            codes.append(await errands.run(CommandExits(["test", "-d", "tmp"], cwd="/")))
            assert not list((tmp_path / "run" / "spool").iterdir())
            return codes

    assert asyncio.run(run()) == [0, 3, 137, 0, 0]


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_ended_with_all_that_it_began(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as errands:
            assert await errands.run(bash(STAYS, timeout=300)) == 124
            assert not survivors(tmp_path)

    asyncio.run(run())


def test_a_question_that_nobody_wants_any_more_is_ended(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as errands:
            asking = asyncio.create_task(errands.run(bash(STAYS)))
            await until((tmp_path / "began").exists)
            asking.cancel()
            await errands.close()
            assert not survivors(tmp_path)

    asyncio.run(run())


def test_a_killed_guardian_is_no_answer_and_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as errands:
            asking = asyncio.create_task(errands.run(bash(STAYS)))
            await until((tmp_path / "began").exists)
            guardian_of(tmp_path).send_signal(SIGKILL)
            with pytest.raises(StoreUnavailable):
                await asking
            assert not survivors(tmp_path)
            assert await errands.run(bash("exit 0")) == 0

    asyncio.run(run())


@pytest.mark.slow
def test_the_next_node_ends_what_a_dead_one_left(tmp_path: Path) -> None:
    async def run() -> None:
        dead = make(tmp_path)
        asking = asyncio.create_task(dead.run(bash(STAYS)))
        await until((tmp_path / "began").exists)
        async with opened(tmp_path, epoch=2) as errands:
            assert not survivors(tmp_path)
            assert await errands.run(bash("exit 1")) == 1
        await asyncio.gather(asking, return_exceptions=True)
        await dead.close()

    asyncio.run(run())


def test_what_cannot_be_run_is_neither_a_yes_nor_a_no(tmp_path: Path) -> None:
    never = [
        CommandExits([]),
        CommandExits(["a\0b"]),
        CommandExits(["true"], cwd="relative"),
        CommandExits(["no-such-program-anywhere"]),
        CommandExits(["true"], cwd="/no/such/folder"),
    ]

    async def run() -> None:
        async with opened(tmp_path) as errands:
            for probe in never:
                with pytest.raises(BadInput):
                    await errands.run(probe)

    asyncio.run(run())


@pytest.mark.parametrize("why", ["lost", "machine", "trust", "shutdown", "stop"])
def test_an_end_that_is_not_its_own_is_no_answer(why: str) -> None:
    with pytest.raises(StoreUnavailable):
        judge(End(1, 1, why))
