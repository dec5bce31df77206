"""What functions say can be read while they run, is capped while they run, and is not lost when their process dies."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Crashed, Succeed
from ganger.node.functions.messages import SMALL
from ganger.node.functions.track import Place, Printed, Track
from ganger.node.shipping import Readable
from ganger.node.spool import SpoolKey, look
from tests.unit.node.functional import PATIENCE, Works, perform

pytestmark = pytest.mark.slow

FENCE = Fence(7)
SAID = {"stdout": b"out one\n", "stderr": b"err one\n", "log": b"log one\n"}


async def read(reader: Readable, end: int) -> bytes:
    """The first bytes, as soon as there are so many."""
    async with asyncio.timeout(PATIENCE):
        while (extent := reader.signal.extent()).length < end:
            await reader.signal.wait(extent)
    return await reader.take(0, end)


@pytest.mark.parametrize(
    ("name", "fields"),
    [("say_and_wait", {}), ("say_and_wait", {"mode": "thread"}), ("say_and_wait_on_loop", {"mode": "loop"})],
)
def test_every_stream_is_read_while_the_function_runs(name: str, fields: dict[str, Any], tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        (task,) = await works.start(works.assign(name, str(gate), **fields))
        readers = works.executor.watch(task, FENCE)
        assert {stream: await read(readers[stream], len(body)) for stream, body in SAID.items()} == SAID
        gate.touch()
        (ended,) = await works.end_of(task)
        assert ended.outcome == Succeed()
        assert ended.data == {**SAID, "stdout": b"out one\nout two\n", "log": b"log one\nlog two\n"}

    perform(scenario, tmp_path)


def test_what_the_next_function_prints_is_not_taken_for_that_of_the_one_that_is_watched(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gates = [tmp_path / "first", tmp_path / "second"]
        first, second = await works.start(*(works.assign("say_and_wait", str(gate)) for gate in gates))
        readers = works.executor.watch(first, FENCE)
        await read(readers["stdout"], 8)
        gates[0].touch()
        await works.end_of(first)
        later = works.executor.watch(second, FENCE)
        await read(later["stdout"], 8)
        assert readers["stdout"].signal.extent().length <= len(b"out one\nout two\n")
        gates[1].touch()
        await works.end_of(second)

    perform(scenario, tmp_path)


def test_a_function_that_prints_without_end_is_cut_while_it_runs(tmp_path: Path) -> None:
    cap = 500_000

    async def scenario(works: Works) -> None:
        (task,) = await works.start(works.assign("say_until_cut", 100_000))
        reader = works.executor.watch(task, FENCE)["stdout"]
        (ended,) = await works.end_of(task)
        assert isinstance(ended.outcome, Succeed)
        assert ended.streams == ("stdout",)
        assert json.loads(ended.data["cut"])["stdout"] == json.loads(ended.outcome.result or b"0") - cap
        assert look(tmp_path / "spool" / f"{task}.7.stdout").length == cap
        assert reader.signal.extent().length <= cap

    perform(scenario, tmp_path, cap=cap)


def test_all_that_a_dead_process_had_printed_is_kept(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (task,) = await works.start(works.assign("print_much_and_die", 3 * SMALL))
        (ended,) = await works.end_of(task)
        assert isinstance(ended.outcome, Crashed)
        assert ended.streams == ("stdout",)
        key = SpoolKey(TaskId(task), FENCE, "stdout")
        assert await works.executor.spool.read_ended(key).read() == b"y" * 3 * SMALL

    perform(scenario, tmp_path)


def track(folder: Path, cap: int = 1 << 20) -> Track:
    return Track(Place(str(folder), cap), SpoolKey(TaskId(1), FENCE, "log"))


def collect(one: Track) -> Printed:
    printed = Printed({}, {}, [], {})
    one.collect(printed)
    return printed


def test_a_little_stays_in_memory(tmp_path: Path) -> None:
    one = track(tmp_path)
    one.write("a")
    one.write("\udcff")
    assert collect(one) == Printed({"log": b"a\\udcff"}, {}, [], {})
    assert not list(tmp_path.iterdir())


def test_much_goes_to_the_spool_and_is_cut_at_the_cap(tmp_path: Path) -> None:
    one = track(tmp_path, cap=SMALL + 10)
    for _ in range(3):
        one.write("x" * SMALL)
    assert collect(one) == Printed({}, {"log": 2 * SMALL - 10}, ["log"], {})
    assert look(tmp_path / "1.7.log").length == SMALL + 10


def test_what_is_followed_goes_to_the_spool_at_once_and_is_given_whole_if_it_is_little(tmp_path: Path) -> None:
    one = track(tmp_path)
    one.write("before ")
    one.follow()
    one.write("after")
    assert (tmp_path / "1.7.log").read_bytes() == b"before after"
    assert collect(one) == Printed({"log": b"before after"}, {}, ["log"], {})


def test_a_spool_that_cannot_be_written_does_not_fail_the_function(tmp_path: Path) -> None:
    one = track(tmp_path / "gone")
    one.write("x" * (SMALL + 1))
    one.write("more")
    printed = collect(one)
    assert (printed.said, printed.cut) == ({"log": b"x" * SMALL}, {"log": 5}), "what the store can take is kept"
    assert "could not spool the output" in printed.faults["log"]
