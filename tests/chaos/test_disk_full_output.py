"""A real small disk that is full: what the reserve can hold of output is kept, and what is lost is said."""

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from ganger.cli.main import main
from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.wire.cuts import FULL, Cut, read_cut
from tests.chaos.test_disk_full import disk, fill
from tests.system.harness_node import Desk, desk, node_in, settings
from tests.unit.node.guarded import until

__all__ = ["disk"]

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

KEPT: Final = 65_536
MUCH: Final = 3_000_000
WAIT: Final = "touch {begun}; until [ -e {gate} ]; do sleep 0.02; done"
SAY_MUCH: Final = f"echo first; head -c {MUCH} /dev/zero | tr '\\0' x"


@pytest.fixture
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on another disk."""
    return tmp_path_factory.mktemp("beside")


async def find_cut(made: Desk, task: TaskId) -> Cut:
    return read_cut((await made.engine.read_data(task, "cut")).body)


async def read(made: Desk, task: TaskId, stream: str) -> bytes:
    return (await made.engine.read_output(task, stream, 0, 1 << 22)).body


async def check_cut(made: Desk, task: TaskId) -> Cut:
    """Of each stream the beginning is kept, and it is said to the byte what is not. One of them may have been whole."""
    whole, cut = b"first\n" + b"x" * MUCH, await find_cut(made, task)
    for stream in ("stdout", "mixedout"):
        kept = await read(made, task, stream)
        assert len(kept) >= KEPT
        assert kept == whole[: len(kept)]
        assert cut.streams.get(stream, 0) == len(whole) - len(kept)
    assert (sum(cut.streams.values()) > 0, cut.why, cut.attempt) == (True, FULL, 1)
    return cut


def show(folder: Path, command: str, task: TaskId) -> tuple[str, str]:
    """What a person sees."""
    result = CliRunner().invoke(main, [command, str(task)], env={"GANGER_STORE": settings(folder).store})
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_on_a_full_disk_the_beginning_of_output_is_kept_and_it_is_said_what_is_not(disk: Path, beside: Path) -> None:
    gate, begun = beside / "gate", [beside / f"begun{number}" for number in range(3)]
    waits = [WAIT.format(begun=path, gate=gate) for path in begun]

    async def check() -> tuple[list[TaskId], list[Cut]]:
        async with desk(disk) as made, node_in(disk, slots=3, kinds=("shell",)):
            scripts = (f"{waits[0]}; {SAY_MUCH}", f"{waits[1]}; echo small; echo err >&2", f"{SAY_MUCH}; {waits[2]}")
            large, small, before = tasks = await made.submit(*map(made.shell, scripts))
            await until(lambda: all(path.exists() for path in begun))
            fill(disk / "wholly", 0)
            gate.touch()
            assert await made.wait(*tasks) == [Status.SUCCEEDED] * 3
            assert (await read(made, small, "stdout"), await read(made, small, "stderr")) == (b"small\n", b"err\n")
            assert await find_cut(made, small) == Cut({})
            return [large, small], [await check_cut(made, task) for task in (large, before)]

    (large, small), (cut, _) = asyncio.run(check())
    (disk / "wholly").unlink()
    shown = "mixedout" if "mixedout" in cut.streams else "stdout"
    said = f"cut: the disk was full; {cut.streams[shown]:,} bytes of {shown} not kept\n"
    assert show(disk, "logs", large)[1] == said
    assert re.search(r"^output cut +the disk was full; [1-9][0-9,]+ bytes", show(disk, "show", large)[0], re.MULTILINE)
    assert "cut" not in show(disk, "logs", small)[1] + show(disk, "show", small)[0]


def test_what_a_function_prints_on_a_full_disk_is_kept_as_far_as_it_goes_and_the_rest_is_said(
    disk: Path, beside: Path
) -> None:
    gate = beside / "gate"

    async def check() -> None:
        async with desk(disk) as made, node_in(disk, kinds=("function",)):
            (task,) = await made.submit(made.call("say_much_at", str(gate), MUCH))
            await until(Path(f"{gate}.begun").exists)
            fill(disk / "wholly", 0)
            gate.touch()
            assert await made.wait(task) == [Status.SUCCEEDED]
            kept, cut = await read(made, task, "stdout"), await find_cut(made, task)
            assert kept == b"y" * len(kept)
            assert (len(kept) >= KEPT, cut.why) == (True, FULL)
            assert cut.streams["stdout"] == MUCH - len(kept)

    asyncio.run(check())
