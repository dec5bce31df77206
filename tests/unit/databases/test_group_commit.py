"""Units, groups, and what a failure of one means for the others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ganger.core.errors import DuplicateKey, StoreBroken, StoreError
from ganger.databases.sqlite import SharedFile
from ganger.testing.clock import FakeClock
from tests.unit.databases.counter import OPERATIONS, Counted, Line, lines, open_counter, opened, read_file


async def write_together(shared: object, calls: list[tuple[str, Line]]) -> list[object]:
    return await asyncio.gather(
        *(shared.call(name, line) for name, line in calls),  # type: ignore[attr-defined]
        return_exceptions=True,
    )


def run(scenario: object) -> None:
    asyncio.run(scenario)  # type: ignore[arg-type]


def test_a_unit_is_in_the_file_when_the_call_returns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            assert await shared.call("submit", Line("ada", 1)) == 1
            assert await shared.read(lines) == [("ada", 1)]

    run(scenario())
    assert read_file(tmp_path / "counter.db") == [("ada", 1)]


def test_units_that_wait_at_the_same_moment_share_one_transaction(tmp_path: Path) -> None:
    probe = Counted()

    async def scenario() -> None:
        async with opened(tmp_path / "counter.db", probe=probe) as shared:
            await write_together(shared, [("submit", Line("ada", n)) for n in range(200)])
            assert len(await shared.read(lines)) == 200

    run(scenario())
    assert probe.count("scribe.unit_run") == 200
    assert probe.count("scribe.committed_before_reply") <= 20


def test_a_unit_that_is_refused_leaves_nothing_and_hurts_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            calls = [("submit" if n % 3 else "refuse", Line("ada", n)) for n in range(60)]
            outcomes = await write_together(shared, calls)
            refused = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, DuplicateKey)]
            assert refused == list(range(0, 60, 3))
            assert [n for _, n in await shared.read(lines)] == [n for n in range(60) if n % 3]

    run(scenario())


def test_units_that_one_caller_hands_in_together_are_answered_each_in_its_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            assert await shared.call_each("submit", []) == []
            first, second = await shared.call_each("submit", [Line("ada", 1), Line("bob", 2)])
            assert (first, second) == (1, 2)
            refused = await shared.call_each("refuse", [Line("ada", n) for n in range(3)])
            assert [(type(error), error.fields["ids"]) for error in refused] == [(DuplicateKey, [n]) for n in range(3)]
            assert await shared.read(lines) == [("ada", 1), ("bob", 2)]

    run(scenario())


def test_a_refusal_alone_in_its_group_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            with pytest.raises(DuplicateKey, match="ada is taken") as caught:
                await shared.call("refuse", Line("ada", 7))
            assert caught.value.fields == {"key": "ada", "ids": [7]}
            assert await shared.call("count", None) == 0

    run(scenario())


def test_an_exception_that_is_a_bug_is_a_store_error_with_its_cause(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            with pytest.raises(StoreError, match="crash failed with ZeroDivisionError") as caught:
                await shared.call("crash", Line("ada", 1))
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            assert await shared.call("submit", Line("ada", 2)) == 1

    run(scenario())


def test_what_is_kept_in_memory_stays_true_when_units_are_rolled_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            names = ("submit", "refuse", "twice", "crash")
            await write_together(shared, [(names[n % 4], Line("ada", n)) for n in range(100)])
            stored = len(await shared.read(lines))
            assert stored == 75
            assert await shared.call("submit", Line("last", 0)) == stored + 1

    run(scenario())
    assert read_file(tmp_path / "counter.db", lambda it: it.execute("SELECT total FROM tally").fetchall()) == [(76,)]


def test_an_operation_that_ends_its_transaction_is_found_out_and_the_file_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            with pytest.raises(StoreBroken, match="ended the transaction"):
                await shared.call("end", None)
            assert await shared.call("submit", Line("ada", 1)) == 1

    run(scenario())


def test_the_time_of_a_session_is_the_clock_of_the_owner(tmp_path: Path) -> None:
    clock = FakeClock(now=5_000, wall=9_000)

    async def scenario() -> None:
        async with opened(tmp_path / "counter.db", clock=clock) as shared:
            assert await shared.call("clock", None) == (5_000, 9_000)
            clock.advance(10)
            clock.jump_wall(-3_600_000)
            assert await shared.call("clock", None) == (5_010, 9_010 - 3_600_000)

    run(scenario())


def test_a_plain_thread_calls_without_an_event_loop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            total = await asyncio.to_thread(shared.call_blocking, "submit", Line("ada", 1), 5.0)
            assert total == 1
            with pytest.raises(DuplicateKey):
                await asyncio.to_thread(shared.call_blocking, "refuse", Line("ada", 1))

    run(scenario())


def test_an_unknown_operation_is_refused_with_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            with pytest.raises(StoreError, match="'fly'"):
                await shared.call("fly", None)

    run(scenario())


def test_a_group_that_runs_long_is_committed_and_the_rest_follows(tmp_path: Path) -> None:
    clock = FakeClock()
    probe = Counted()

    def dawdle(name: str) -> None:
        probe(name)
        if name == "scribe.unit_run":
            clock.advance(30)

    async def scenario() -> None:
        async with opened(tmp_path / "counter.db", clock=clock, probe=dawdle) as shared:
            await write_together(shared, [("submit", Line("ada", n)) for n in range(10)])
            assert [n for _, n in await shared.read(lines)] == list(range(10))

    run(scenario())
    assert probe.count("scribe.committed_before_reply") >= 5


def test_a_cancelled_call_does_not_disturb_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            tasks = [asyncio.create_task(shared.call("submit", Line("ada", n))) for n in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert await shared.call("count", None) == 20

    run(scenario())


def test_an_operation_has_receipt_and_replay_or_neither(tmp_path: Path) -> None:
    half = OPERATIONS[-1].__class__("half", None, None, lambda session, _: None, receipt=lambda _: b"")

    with pytest.raises(StoreError, match="receipt and replay"):
        run(open_counter(tmp_path / "counter.db", operations=(half,)))


async def write_pages(shared: SharedFile, numbers: list[int]) -> list[Any]:
    return await asyncio.gather(*(shared.call("page", (Line("ada", n),)) for n in numbers), return_exceptions=True)


def test_units_that_can_be_run_together_are_run_as_one_and_answered_each(tmp_path: Path) -> None:
    probe = Counted()

    async def scenario() -> None:
        async with opened(tmp_path / "counter.db", probe=probe) as shared:
            totals = await write_pages(shared, list(range(200)))
            assert sorted(totals) == [[n] for n in range(1, 201)]
            assert sorted(n for _, n in await shared.read(lines)) == list(range(200))

    run(scenario())
    assert probe.count("scribe.unit_run") <= 20


def test_one_at_fault_among_units_run_together_is_refused_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "counter.db") as shared:
            outcomes = await write_pages(shared, [n if n % 50 else -1 for n in range(1, 200)])
            refused = [n for n, outcome in enumerate(outcomes, 1) if isinstance(outcome, DuplicateKey)]
            assert refused == [50, 100, 150]
            assert sorted(n for _, n in await shared.read(lines)) == [n for n in range(1, 200) if n % 50]
            assert await shared.call("submit", Line("last", 0)) == 197

    run(scenario())
    assert read_file(tmp_path / "counter.db", lambda it: it.execute("SELECT total FROM tally").fetchall()) == [(197,)]
