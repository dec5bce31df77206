"""Functions that are begun past the event loop: held before they are ours, begun at the word, told of like others."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from signal import SIGKILL

import pytest
from msgspec.structs import replace

from ganger.core.clock import Moment
from ganger.core.ids import Fence
from ganger.core.outcome import Crashed, Release, Succeed
from ganger.core.task import Claimed
from ganger.node.executor import Assignment
from ganger.node.functions.child import Child
from ganger.node.functions.idling import TAKES_TURNS, Idler
from ganger.node.functions.messages import Mode
from ganger.node.functions.note import Note
from ganger.runtime.clock import SystemClock
from tests.unit.node.functional import Works, appear, perform
from tests.unit.node.guarded import until
from tests.unit.node.test_function_processes import is_gone

pytestmark = pytest.mark.skipif(
    not TAKES_TURNS or len(os.sched_getaffinity(0)) < 2, reason="LOUD SKIP: one processor, where nothing is begun early"
)


def whole(assignment: Assignment) -> Assignment:
    """With its spec in the claim, as it comes from a store."""
    return replace(assignment, claimed=assignment.claimed._replace(spec=assignment.spec))


async def prepare(works: Works, *assignments: Assignment) -> list[Claimed]:
    """Have a warm process hold these."""
    claimed = [one.claimed for one in assignments]
    assert await asyncio.to_thread(works.executor.prepare, claimed)
    return claimed


def child_of(works: Works) -> Child:
    """The one warm process."""
    (child,) = works.executor._crews[Mode.PROCESS]._children
    return child


def has_spoken(works: Works) -> bool:
    """Has the process said something that the loop may not hear yet?"""
    return bool(child_of(works)._early._said)


async def fall_asleep(works: Works) -> None:
    """Wait until the process has looked for the word long enough, or has something to say."""
    await until(lambda: child_of(works).note.dozes or has_spoken(works))


async def warm(works: Works) -> int:
    ended = await works.run("tell_pid")
    assert isinstance(ended.outcome, Succeed)
    return int(ended.outcome.result or b"0")


@pytest.mark.parametrize("sleeps", [True, False])
def test_what_is_held_is_begun_at_the_word_and_told_when_the_loop_knows_of_it(tmp_path: Path, sleeps: bool) -> None:
    async def scenario(works: Works) -> None:
        await warm(works)
        works.teach("note_run")
        works.teach("add")
        ran = tmp_path / "ran"
        jobs = [whole(works.assign("note_run", str(ran))), whole(works.assign("add", 1, 2))]
        await prepare(works, *jobs)
        if sleeps:
            await fall_asleep(works)
        assert not ran.exists()
        await asyncio.to_thread(works.executor.begin)
        await appear(ran)
        assert not set(works.ended) & {one.claimed.id for one in jobs}
        ends = await works.end_of(*await works.hand_over(*jobs))
        assert ends[1].outcome == Succeed(b"3")
        assert (await works.run("add", 1)).outcome == Succeed(b"1")

    perform(scenario, tmp_path)


def test_what_is_forgotten_is_not_run(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        pid = await warm(works)
        ran = tmp_path / "ran"
        for sleeps in (True, False):
            await prepare(works, whole(works.assign("note_run", str(ran))))
            if sleeps:
                await fall_asleep(works)
            await asyncio.to_thread(works.executor.forget)
        assert await warm(works) == pid
        assert not ran.exists()

    perform(scenario, tmp_path)


def test_only_plain_jobs_are_held_and_only_by_a_process_that_has_nothing_to_do(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        plain = whole(works.assign("add", 1))
        assert not works.executor.prepare([plain.claimed]), "no process is there yet"
        await warm(works)
        for odd in (
            works.assign("add", 1),
            whole(works.assign("add", 1, mode="thread")),
            whole(works.assign("add", {"$task": 3})),
            whole(works.assign("add", "x" * 20_000)),
        ):
            assert not works.executor.prepare([odd.claimed])
        assert not works.executor.prepare([plain.claimed._replace(kind="command")])
        pair = [whole(works.assign("add", number)).claimed for number in range(2)]
        assert not works.executor.prepare(pair), "nobody knows how long the first one takes"
        gate = tmp_path / "gate"
        busy = await works.start(works.assign("wait_for", str(gate)))
        assert not works.executor.prepare([plain.claimed])
        gate.touch()
        await works.end_of(*busy)
        await prepare(works, plain)
        assert not works.executor.prepare([plain.claimed]), "one at a time"
        works.executor.begin()
        assert (await works.end_of(*await works.hand_over(plain)))[0].outcome == Succeed(b"1")

    perform(scenario, tmp_path)


def test_one_whose_process_dies_while_it_holds_it_is_run_by_another(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        pid = await warm(works)
        job = whole(works.assign("tell_pid"))
        await prepare(works, job)
        os.kill(pid, SIGKILL)
        await until(lambda: child_of(works).note.is_buried)
        works.executor.begin()
        (ended,) = await works.end_of(*await works.hand_over(job))
        assert isinstance(ended.outcome, Succeed)
        assert ended.outcome.result != str(pid).encode()

    perform(scenario, tmp_path)


def test_one_whose_process_dies_of_it_before_the_loop_knows_is_to_blame(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        await warm(works)
        job = whole(works.assign("die"))
        await prepare(works, job)
        works.executor.begin()
        await until(lambda: child_of(works).note.is_buried)
        (ended,) = await works.end_of(*await works.hand_over(job))
        assert isinstance(ended.outcome, Crashed)
        assert (await works.run("add", 1)).outcome == Succeed(b"1")

    perform(scenario, tmp_path)


Interference = Callable[[Works], Awaitable[None]]


async def drop(works: Works) -> None:
    works.executor.give_back()


async def distrust(works: Works) -> None:
    works.executor.trust(Moment(1))


@pytest.mark.parametrize("interfere", [drop, distrust])
@pytest.mark.parametrize("before_the_word", [True, False])
def test_one_that_is_called_back_meanwhile_is_run_or_given_back_and_never_lost(
    tmp_path: Path, interfere: Interference, before_the_word: bool
) -> None:
    async def scenario(works: Works) -> None:
        await warm(works)
        job = whole(works.assign("add", 1))
        await prepare(works, job)
        if before_the_word:
            await interfere(works)
            await fall_asleep(works)
        works.executor.begin()
        if not before_the_word:
            await interfere(works)
        (ended,) = await works.end_of(*await works.hand_over(job))
        assert ended.outcome in (Release(), Succeed(b"1"))

    perform(scenario, tmp_path)


def test_an_executor_that_is_closed_waits_for_what_was_begun(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        await warm(works)
        job = whole(works.assign("add", 1))
        await prepare(works, job)
        works.executor.begin()
        child = child_of(works)
        closing = asyncio.create_task(works.executor.close(give_back=True))
        await until(lambda: is_gone(child.pid))
        assert not closing.done()
        (ended,) = await works.end_of(*await works.hand_over(job))
        assert ended.outcome in (Release(), Succeed(b"1"))
        await closing

    perform(scenario, tmp_path)


def test_one_that_is_stopped_when_the_loop_knows_of_it_ends(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        await warm(works)
        begun = tmp_path / "begun"
        job = whole(works.assign("begin_and_wait", str(begun), grace=50))
        await prepare(works, job)
        works.executor.begin()
        await appear(begun)
        (task,) = await works.hand_over(job)
        await works.executor.stop(task, Fence(7), "not wanted")
        (ended,) = await works.end_of(task)
        assert "not wanted" in str(ended.outcome)

    perform(scenario, tmp_path)


def test_who_waits_for_a_word_sees_it_in_time_or_says_that_it_sleeps(tmp_path: Path) -> None:
    note = Note.make(tmp_path / "a.note", 1)
    reader, writer = os.pipe()
    idler = Idler(reader, note, SystemClock())
    note.word = 5
    assert idler.hears_word(5)
    assert not note.dozes
    assert not idler.hears_word(6)
    assert [note.dozes] == [True]
    os.write(writer, b"x")
    assert idler.wait(lambda: True, is_held=True)
    assert [note.dozes] == [False]
    assert not idler.wait(lambda: False, is_held=False)
    for fd in (reader, writer):
        os.close(fd)
    note.close()


def test_words_of_a_process_are_heard_in_their_order_after_it_was_begun_early(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        await warm(works)
        job = whole(works.assign("report_progress"))
        await prepare(works, job)
        works.executor.begin()
        await until(lambda: has_spoken(works))
        assert not works.said
        (task,) = await works.hand_over(job)
        await works.end_of(task)
        await until(lambda: works.said)
        assert works.said[-1][0] == task

    perform(scenario, tmp_path)
