"""Many processes on one file at once: fair, awake when there is something, asleep when there is not."""

import asyncio
import os
import signal
from pathlib import Path

from tests.unit.databases.actor import troupe


def test_eight_processes_that_write_are_served_evenly_and_none_waits_long(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            writers = [await company.hire(tmp_path / "counter.db") for _ in range(8)]
            results = await asyncio.gather(
                *(
                    writer.ask("write", who=f"w{place}", log=str(tmp_path / f"w{place}.log"), seconds=3)
                    for place, writer in enumerate(writers)
                )
            )
            done = [int(result["done"]) for result in results]
            assert min(done) >= sum(done) / len(done) / 2, done
            assert max(float(result["slowest_ms"]) for result in results) < 250, results

    asyncio.run(scenario())


def test_processes_that_open_a_new_file_at_the_same_moment_all_get_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            actors = [await company.hire() for _ in range(6)]
            opened = await asyncio.gather(*(actor.ask("open", path=str(tmp_path / "counter.db")) for actor in actors))
            assert opened == [{"opened": True}] * 6
            assert sum([await actor.owns() for actor in actors]) == 1
            totals = [await actor.ask("call", operation="submit", request=["ada", 1]) for actor in actors]
            assert sorted(total["value"] for total in totals) == [1, 2, 3, 4, 5, 6]

    asyncio.run(scenario())


def test_a_commit_in_one_process_wakes_the_listeners_in_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            actors = [await company.hire(tmp_path / "counter.db") for _ in range(3)]
            for actor in actors:
                await actor.ask("listen", topics=["line:ada"])
            for client in actors[1:]:
                await client.ask("heard", topic="line:ada")
            for writer in actors:
                for actor in actors:
                    await actor.ask("forget")
                await writer.ask("call", operation="submit", request=["ada", 1])
                for actor in actors:
                    assert (await actor.ask("heard", topic="line:ada"))["heard"] == 1

    asyncio.run(scenario())


def test_listeners_are_told_once_when_the_owner_changed_because_they_may_have_missed_something(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            heirs = [await company.hire(tmp_path / "counter.db") for _ in range(2)]
            for heir in heirs:
                await heir.ask("listen", topics=["line:ada"])
                await heir.ask("heard", topic="line:ada")
                await heir.ask("forget")
            owner.kill()
            for heir in heirs:
                assert (await heir.ask("heard", topic="line:ada"))["heard"] >= 1

    asyncio.run(scenario())


def test_a_reader_in_another_process_sees_what_was_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            client = await company.hire(tmp_path / "counter.db")
            for n in range(1, 51):
                writer, reader = (owner, client) if n % 2 else (client, owner)
                await writer.ask("call", operation="submit", request=["ada", n])
                assert (await reader.ask("read", sql="SELECT count(*) FROM line"))["rows"] == [[n]]

    asyncio.run(scenario())


def test_an_idle_owner_and_an_idle_client_sleep(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            actors = [await company.hire(tmp_path / "counter.db") for _ in range(2)]
            for actor in actors:
                await actor.ask("call", operation="submit", request=["ada", 1])
            idle = await asyncio.gather(*(actor.ask("cpu", seconds=1.5) for actor in actors))
            # Each may still have been on its way to sleep when the counting began.
            assert max(int(each["switches"]) for each in idle) <= 2
            assert max(float(each["cpu"]) for each in idle) < 0.03

    asyncio.run(scenario())


def test_a_stopped_owner_is_named_to_those_who_wait_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            limits = {"answer_ms": 300, "connect_ms": 300}
            owner = await company.hire(tmp_path / "counter.db")
            client = await company.hire(tmp_path / "counter.db", limits=limits)
            late = await company.hire()
            await owner.stop()
            answer = await client.ask("call", operation="submit", request=["ada", 1])
            assert (answer["error"], answer["fields"]["pid"]) == ("store_unavailable", owner.pid)
            answer = await late.ask("open", path=str(tmp_path / "counter.db"), limits=limits)
            assert (answer["error"], answer["fields"]["pid"]) == ("store_unavailable", owner.pid)
            owner.kill(signal.SIGCONT)
            assert await client.ask("call", operation="submit", request=["ada", 2]) == {"value": 2}

    asyncio.run(scenario())


def test_a_forked_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            client = await company.hire(tmp_path / "counter.db")
            for actor in (owner, client):
                assert await actor.ask("fork") == {"got": "forked_handle"}
                assert "value" in await actor.ask("call", operation="submit", request=["ada", 1])

    asyncio.run(scenario())


def test_a_child_that_outlives_the_owner_keeps_nobody_from_taking_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            client = await company.hire(tmp_path / "counter.db")
            child = (await owner.ask("leave_child"))["pid"]
            try:
                owner.kill()
                await owner.process.wait()
                assert await client.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}
                assert await client.owns()
            finally:
                os.kill(child, signal.SIGKILL)

    asyncio.run(scenario())
