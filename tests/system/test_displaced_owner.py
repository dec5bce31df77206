"""The files of a store are removed or replaced under the process that owns it: it notices, steps down, and says so."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ganger.databases.sqlite.place import Place
from tests.unit.databases.actor import Actor, Troupe, read_log, troupe
from tests.unit.databases.counter import Line, lines, opened, read_file, until

LINES = "SELECT who, n FROM line ORDER BY rowid"
SOON = 30


async def hire_two(company: Troupe, path: Path) -> tuple[Actor, Actor]:
    """An owner and another, both of which have read."""
    owner = await company.hire(path)
    other = await company.hire(path)
    for who, actor in (("owner", owner), ("other", other)):
        assert "value" in await actor.ask("call", operation="submit", request=[who, 1])
        assert (await actor.ask("read", sql=LINES))["rows"]
    assert await owner.owns()
    return owner, other


async def becomes(actor: Actor, wanted: Any, do: str, **what: Any) -> float:
    """Ask until the answer is this one; how many seconds it took."""
    loop = asyncio.get_running_loop()
    began, said = loop.time(), None
    while loop.time() - began < SOON:
        said = await actor.ask(do, **what)
        assert said, "the process died"
        if said == wanted:
            return loop.time() - began
        await asyncio.sleep(0.01)
    raise AssertionError(f"{do} {what} still says {said}, not {wanted}")


async def count_owners(actors: list[Actor]) -> int:
    return sum([await actor.owns() for actor in actors])


def make_another(path: Path) -> None:
    async def make() -> None:
        async with opened(path) as shared:
            await shared.call("submit", Line("another", 7))

    asyncio.run(make())


def test_without_its_lock_file_an_owner_steps_down_and_no_line_is_lost_or_doubled(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def write_while_it_goes(company: Troupe, actors: list[Actor], number: int) -> Actor:
        logs = [(actor, f"w{number}-{place}") for place, actor in enumerate(actors)]
        writers = [
            asyncio.create_task(actor.ask("write", who=who, log=str(tmp_path / f"{who}.log"), seconds=1.5))
            for actor, who in logs
        ]
        await until(lambda: all(did_some(tmp_path / f"{who}.log") for _, who in logs))
        Place.of(path).lock.unlink()
        third = await company.hire(path)
        assert "value" in await third.ask("call", operation="submit", request=[f"third{number}", 1])
        for writer in writers:
            assert (await writer)["errors"] == []
        return third

    async def scenario() -> list[tuple[str, int]]:
        async with troupe() as company:
            actors = [*await hire_two(company, path)]
            for number in range(3):
                actors.append(await write_while_it_goes(company, actors, number))
                assert await count_owners(actors) == 1
            return [(who, n) for who, n in (await actors[0].ask("read", sql=LINES))["rows"]]

    rows = asyncio.run(scenario())
    assert len(set(rows)) == len(rows)
    for log in tmp_path.glob("w*.log"):
        asked, did = read_log(log)
        stored = {n for who, n in rows if who == log.stem}
        assert did <= stored <= asked


def did_some(log: Path) -> bool:
    return log.exists() and len(read_log(log)[1]) > 5


def test_a_second_owner_is_never_there_while_the_first_one_stands_still(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def scenario() -> None:
        async with troupe() as company:
            owner, other = await hire_two(company, path)
            await owner.stop()
            Place.of(path).lock.unlink()
            third = await company.hire(path)
            assert "value" in await third.ask("call", operation="submit", request=["third", 1])
            owner.kill(signal.SIGCONT)
            assert "value" in await owner.ask("call", operation="submit", request=["late", 1])
            assert await count_owners([owner, other, third]) == 1
            rows = (await third.ask("read", sql=LINES))["rows"]
            assert [row[0] for row in rows] == ["owner", "other", "third", "late"]

    asyncio.run(scenario())


def test_another_database_in_the_place_of_one_in_use_is_served_and_the_old_log_is_kept_apart(tmp_path: Path) -> None:
    path, another = tmp_path / "c.db", tmp_path / "another.db"
    make_another(another)

    async def scenario() -> None:
        async with troupe() as company:
            owner, other = await hire_two(company, path)
            os.rename(another, path)
            for actor in (owner, other):
                assert await becomes(actor, {"rows": [["another", 7]]}, "read", sql=LINES) < SOON
            assert (await other.ask("call", operation="submit", request=["new", 1])).keys() == {"value"}
            assert await count_owners([owner, other]) == 1
            for actor in (owner, other):
                assert (await actor.ask("read", sql=LINES))["rows"] == [["another", 7], ["new", 1]]
        assert [kept.name[:15] for kept in Place.of(path).find_damaged()] == ["c.db-damaged-wa"]

    asyncio.run(scenario())
    assert read_file(path, lambda connection: connection.execute("PRAGMA integrity_check").get) == "ok"


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_database_that_was_removed_is_told_and_not_made_again_until_it_is_back(
    tmp_path: Path, all_of_it: bool
) -> None:
    path = tmp_path / "c.db"
    names = ["c.db", "c.db-wal", "c.db-shm"] if all_of_it else ["c.db"]

    async def scenario() -> None:
        async with troupe() as company:
            owner, other = await hire_two(company, path)
            for name in names:
                os.rename(tmp_path / name, tmp_path / f"away-{name}")
            for actor in (owner, other):
                said = await actor.ask("call", operation="submit", request=["lost", 1])
                assert said["error"] == "store_replaced", said
                assert (await actor.ask("read", sql=LINES))["error"] == "store_replaced"
            assert not path.exists()
            for name in names:
                os.rename(tmp_path / f"away-{name}", tmp_path / name)
            for actor in (owner, other):
                await becomes(actor, {"rows": [["owner", 1], ["other", 1]]}, "read", sql=LINES)
            assert "value" in await owner.ask("call", operation="submit", request=["again", 1])

    asyncio.run(scenario())
    assert [who for who, _ in read_file(path, lines)] == ["owner", "other", "again"]


def test_a_store_that_was_deleted_and_made_anew_is_served_by_those_who_had_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def scenario() -> None:
        async with troupe() as company:
            owner, other = await hire_two(company, path)
            for name in os.listdir(tmp_path):
                os.unlink(tmp_path / name)
            third = await company.hire(path)
            assert "value" in await third.ask("call", operation="submit", request=["third", 1])
            for actor in (owner, other):
                await becomes(actor, {"rows": [["third", 1]]}, "read", sql=LINES)
            for actor in (owner, other):
                assert (await actor.ask("call", operation="submit", request=["old", 1])).keys() == {"value"}
            assert await count_owners([owner, other, third]) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["c.db-wal", "c.db-shm"])
def test_a_log_that_was_removed_under_its_owner_costs_nothing_that_was_acknowledged(tmp_path: Path, name: str) -> None:
    path = tmp_path / "c.db"

    async def scenario() -> None:
        async with troupe() as company:
            owner, other = await hire_two(company, path)
            (tmp_path / name).unlink()
            for actor in (owner, other):
                assert (await actor.ask("call", operation="submit", request=["after", 1])).keys() == {"value"}
            for actor in (owner, other):
                rows = (await actor.ask("read", sql=LINES))["rows"]
                assert [row[0] for row in rows] == ["owner", "other", "after", "after"]

    asyncio.run(scenario())
    assert len(read_file(path, lines)) == 4


def test_an_owner_whose_socket_was_removed_can_be_reached_again(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def scenario() -> None:
        async with troupe() as company:
            owner, other = await hire_two(company, path)
            Place.of(path).socket.unlink()
            third = await company.hire(path)
            for actor in (owner, other, third):
                assert (await actor.ask("call", operation="submit", request=["after", 1])).keys() == {"value"}
            assert await count_owners([owner, other, third]) == 1

    asyncio.run(scenario())
    assert len(read_file(path, lines)) == 5


def test_an_idle_owner_notices_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    class Heard:
        def __init__(self) -> None:
            self.told = asyncio.Event()
            self.loop = asyncio.get_running_loop()

        def event(self, name: str, **fields: object) -> None:
            assert name == "owner_displaced"
            self.loop.call_soon_threadsafe(self.told.set)

    async def scenario() -> None:
        heard = Heard()
        async with opened(path, telemetry=heard):
            Place.of(path).lock.unlink()
            async with asyncio.timeout(1):
                await heard.told.wait()

    asyncio.run(scenario())
