"""The owner dies, at any point, under load: whatever was acknowledged is there once, and nothing is there twice."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.databases.actor import Actor, Troupe, read_log, troupe
from tests.unit.databases.counter import first, read_file, until

OWNER_POINTS = (
    "scribe.begun",
    "scribe.unit_run",
    "scribe.before_commit",
    "scribe.committed_before_reply",
    "scribe.replied",
    "scribe.woken",
    "checkpoint.before",
    "checkpoint.after",
)


async def write_with(actors: list[Actor], folder: Path, count: int, width: int) -> list[dict[str, Any]]:
    return await asyncio.gather(
        *(
            actor.ask("write", who=f"w{place}", log=str(folder / f"w{place}.log"), count=count, width=width)
            for place, actor in enumerate(actors)
        )
    )


def audit(folder: Path, writers: int) -> int:
    """Every acknowledged line once, every other at most once, and none that nobody asked for; how many there are."""
    path = folder / "counter.db"
    found = Counter(read_file(path))
    for place in range(writers):
        asked, did = read_log(folder / f"w{place}.log")
        mine = {n: times for (who, n), times in found.items() if who == f"w{place}"}
        assert not did - mine.keys(), "acknowledged and lost"
        assert not mine.keys() - asked, "there, and never asked for"
    assert not [line for line, times in found.items() if times > 1], "done twice"
    assert read_file(path, lambda it: it.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
    assert read_file(path, lambda it: first(it, "SELECT total FROM tally")) == found.total()
    return found.total()


async def kill_while_writing(company: Troupe, folder: Path, opening: dict[str, object]) -> list[Actor]:
    path = folder / "counter.db"
    owner = await company.hire(path, **opening)
    writers = [await company.hire(path) for _ in range(4)]
    assert await owner.owns()
    work = asyncio.create_task(write_with(writers, folder, count=500, width=4))
    if "die_at" not in opening:
        await until(lambda: len(read_log(folder / "w0.log")[1]) > 100 if (folder / "w0.log").exists() else False)
        owner.kill()
    results = await work
    assert [result["done"] for result in results] == [500] * 4, results
    assert await owner.process.wait() == -9
    return writers


def test_after_the_death_of_the_owner_four_writers_go_on_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            writers = await kill_while_writing(company, tmp_path, {})
            assert sum([await writer.owns() for writer in writers]) == 1

    asyncio.run(scenario())
    assert audit(tmp_path, 4) == 2_000


@pytest.mark.parametrize("point", OWNER_POINTS)
def test_an_owner_that_dies_at_this_point_loses_nothing(tmp_path: Path, point: str) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            limits = {"checkpoint_pages": 20}
            await kill_while_writing(company, tmp_path, {"die_at": [point, 7], "limits": limits})

    asyncio.run(scenario())
    assert audit(tmp_path, 4) == 2_000


@pytest.mark.parametrize(
    "point", ["owner.locked", "owner.listening", "owner.migrated", "owner.prepared", "owner.serving"]
)
def test_an_owner_that_dies_while_it_starts_leaves_a_file_that_the_next_one_opens(tmp_path: Path, point: str) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            doomed = await company.hire()
            await doomed.ask("open", path=str(tmp_path / "counter.db"), die_at=[point, 1])
            assert await doomed.process.wait() == -9
            heir = await company.hire(tmp_path / "counter.db")
            assert await heir.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}

    asyncio.run(scenario())


def test_when_every_owner_dies_in_turn_the_last_process_still_has_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            writers = [
                await company.hire(tmp_path / "counter.db", die_at=["scribe.committed_before_reply", 40 + 15 * place])
                for place in range(5)
            ]
            writers.append(await company.hire(tmp_path / "counter.db"))
            results = await write_with(writers, tmp_path, count=150, width=3)
            assert results[-1]["done"] == 150
            assert results[-1]["errors"] == []

    asyncio.run(scenario())
    audit(tmp_path, 6)


def test_a_handle_in_a_process_without_work_takes_over_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            idle = await company.hire(tmp_path / "counter.db")
            owner.kill()
            await owner.process.wait()
            await idle.come_to_own()

    asyncio.run(scenario())


def test_a_reply_kept_as_a_receipt_is_rebuilt_when_the_unit_is_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db", die_at=["scribe.committed_before_reply", 1])
            client = await company.hire(tmp_path / "counter.db")
            reply = await client.ask("call", operation="roll", request=["ada", 7])
            assert await owner.process.wait() == -9
            assert reply == {"value": "ada:7"}
            assert (await client.ask("call", operation="count")) == {"value": 1}

    asyncio.run(scenario())
