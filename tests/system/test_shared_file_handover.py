"""The owner passes the file on: to a higher rank, to a newer version, or because it leaves."""

import asyncio
from pathlib import Path

from tests.system.test_shared_file_takeover import audit, write_with
from tests.unit.databases.actor import troupe
from tests.unit.databases.counter import read_file, until

CLIENT, NODE, SERVER = 1, 2, 3


def test_a_process_of_a_higher_rank_gets_the_file_and_one_of_a_lower_rank_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            client = await company.hire(tmp_path / "counter.db", rank=CLIENT)
            server = await company.hire(tmp_path / "counter.db", rank=SERVER)
            node = await company.hire(tmp_path / "counter.db", rank=NODE)
            other = await company.hire(tmp_path / "counter.db", rank=SERVER)
            owns = [await actor.owns() for actor in (client, server, node, other)]
            assert owns == [False, True, False, False]
            for n, actor in enumerate((client, server, node, other), start=1):
                assert await actor.ask("call", operation="submit", request=["ada", n]) == {"value": n}

    asyncio.run(scenario())


def test_a_hand_over_under_load_loses_nothing_doubles_nothing_and_fails_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            writers = [await company.hire(tmp_path / "counter.db") for _ in range(4)]
            work = asyncio.create_task(write_with(writers, tmp_path, count=500, width=4))
            await until((tmp_path / "w1.log").exists)
            node = await company.hire(tmp_path / "counter.db", rank=NODE)
            server = await company.hire(tmp_path / "counter.db", rank=SERVER)
            results = await work
            assert [(result["done"], result["errors"]) for result in results] == [(500, [])] * 4
            assert (await server.owns(), await node.owns()) == (True, False)

    asyncio.run(scenario())
    assert audit(tmp_path, 4) == 2_000


def test_when_an_owner_closes_the_others_go_on_and_the_best_of_them_comes_to_own_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db", rank=SERVER)
            writers = [await company.hire(tmp_path / "counter.db") for _ in range(2)]
            node = await company.hire(tmp_path / "counter.db", rank=NODE)
            work = asyncio.create_task(write_with(writers, tmp_path, count=300, width=4))
            await until((tmp_path / "w1.log").exists)
            assert await owner.ask("close") == {"closed": True}
            results = await work
            assert [(result["done"], result["errors"]) for result in results] == [(300, [])] * 2
            await node.come_to_own()

    asyncio.run(scenario())
    assert audit(tmp_path, 2) == 600


def test_a_stopped_process_is_never_given_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db", rank=SERVER)
            stopped = await company.hire(tmp_path / "counter.db", rank=NODE)
            client = await company.hire(tmp_path / "counter.db")
            await stopped.stop()
            assert await owner.ask("close") == {"closed": True}
            assert await client.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}

    asyncio.run(scenario())


def test_closing_under_load_answers_every_unit_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            for n in range(5):
                await owner.ask("call", operation="submit", request=["ada", n])
            assert await owner.ask("close") == {"closed": True}
            assert (await owner.ask("call", operation="count"))["error"] == "store_closed"

    asyncio.run(scenario())
    assert len(read_file(tmp_path / "counter.db")) == 5
    assert not (tmp_path / "counter.db-wal").exists()
    assert not (tmp_path / "counter.db-socket").exists()


def test_an_heir_that_dies_at_the_hand_over_leaves_the_file_to_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            client = await company.hire(tmp_path / "counter.db")
            server = await company.hire()
            await server.tell("open", path=str(tmp_path / "counter.db"), rank=SERVER, die_at=["handover.received", 1])
            assert await server.process.wait() == -9
            assert await client.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}
            assert await client.owns()

    asyncio.run(scenario())


def test_an_owner_that_dies_at_the_hand_over_leaves_the_file_to_the_heir(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            for point in ("handover.finished", "handover.released"):
                path = tmp_path / f"{point}.db"
                client = await company.hire(path, die_at=[point, 1])
                server = await company.hire(path, rank=SERVER)
                assert await client.process.wait() == -9
                assert await server.owns()
                assert await server.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}

    asyncio.run(scenario())


def test_neighbouring_versions_share_a_file_and_the_newer_one_migrates(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            old = await company.hire(tmp_path / "counter.db", protocol=1)
            new = await company.hire(tmp_path / "counter.db", protocol=2)
            assert (await old.owns(), await new.owns()) == (False, True)
            assert await old.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}
            assert await new.ask("call", operation="submit", request=["ada", 2]) == {"value": 2}
            new.kill()
            await new.process.wait()
            assert await old.ask("call", operation="submit", request=["ada", 3]) == {"value": 3}

    asyncio.run(scenario())


def test_versions_that_are_further_apart_do_not_meet(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            oldest = await company.hire(tmp_path / "counter.db", protocol=1)
            newest = await company.hire()
            refused = await newest.ask("open", path=str(tmp_path / "counter.db"), protocol=3)
            assert refused["error"] == "store_unavailable"
            assert f"process {oldest.pid}" in refused["message"]
            await oldest.ask("close")

            assert await newest.ask("open", path=str(tmp_path / "counter.db"), protocol=3) == {"opened": True}
            too_old = await oldest.ask("open", path=str(tmp_path / "counter.db"), protocol=1)
            assert too_old["error"] == "store_newer_version"
            await newest.ask("close")
            too_old = await oldest.ask("open", path=str(tmp_path / "counter.db"), protocol=1)
            assert too_old["error"] == "store_newer_version"
            assert await oldest.ask("open", path=str(tmp_path / "counter.db"), protocol=2) == {"opened": True}

    asyncio.run(scenario())
