"""Programs that are run for jobs: what they are given, what is told of their end, and that nothing of them is left."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from ganger.client.jobs.program import Streams, run_program

PATIENCE = 20


async def run(folder: Path, words: Sequence[str]) -> tuple[int, bytes]:
    (folder / "given").write_bytes(b"a line\nand another\n")
    with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        async with asyncio.timeout(PATIENCE):
            code = await run_program(words, Streams(folder / "given", out, log))
    return code, (folder / "out").read_bytes()


async def be_gone(pid: int) -> None:
    """Wait until it has ended; who takes note of the end of an orphan is not ours to say."""
    async with asyncio.timeout(PATIENCE):
        while is_there(pid):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_program_reads_all_that_it_is_given(tmp_path: Path) -> None:
    assert asyncio.run(run(tmp_path, ["cat"])) == (0, b"a line\nand another\n")


def test_words_reach_it_as_they_are(tmp_path: Path) -> None:
    words = ["$0 `x` 'y'", "", "-n", "a\nb", "--"]
    code, out = asyncio.run(run(tmp_path, ["printf", "%s|", *words]))
    assert (code, out.decode()) == (0, "".join(f"{word}|" for word in words))


def test_its_code_is_told_and_a_signal_as_a_negative_one(tmp_path: Path) -> None:
    assert asyncio.run(run(tmp_path, ["sh", "-c", "exit 7"]))[0] == 7
    assert asyncio.run(run(tmp_path, ["sh", "-c", "kill -s TERM $$"]))[0] == -signal.SIGTERM


def test_what_it_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    async def leave() -> None:
        _, out = await run(tmp_path, ["sh", "-c", "sleep 1000 & echo $!"])
        await be_gone(int(out))

    asyncio.run(leave())


def test_one_that_is_given_up_is_killed(tmp_path: Path) -> None:
    async def give_up() -> None:
        running = asyncio.ensure_future(run(tmp_path, ["sh", "-c", "echo $$; exec sleep 1000"]))
        async with asyncio.timeout(PATIENCE):
            while not (tmp_path / "out").exists() or not (tmp_path / "out").read_bytes():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(give_up())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "out").read_bytes()), 0)


def test_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such program"):
        asyncio.run(run(tmp_path, ["no-such-program"]))
