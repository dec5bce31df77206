"""Nobody waits for a wake-up that is lost: not for work, not for an end, not for an event, whatever is dropped."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.servers.mongo import MongoServer
from tests.servers.mortal import run_mortal
from tests.servers.postgres import USER, PostgresServer
from tests.servers.proxy import CuttingPort, DroppingProxy
from tests.system.harness import crew
from tests.system.rounds import Record, describe, own_for_a_while, run_world, take_turns, wait_in_turns

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(0)]

ROUNDS: Final = int(os.environ.get("GANGER_TEST_ROUNDS", "200"))
"""So many on each store; the whole figure is 100,000."""
SHARES: Final = (0.0, 0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
"""Of the notifications that are dropped in each world. With few the way itself is tested, with all the fallback."""


def run(worlds: Callable[[AsyncExitStack], Awaitable[Sequence[Sequence[str]]]]) -> None:
    """The rounds, shared by the worlds, each of which is given as the ways to its store."""

    async def story() -> list[Record]:
        rounds = iter(range(ROUNDS))
        async with AsyncExitStack() as stack:
            return await asyncio.gather(*(run_world(urls, rounds) for urls in await worlds(stack)))

    records = asyncio.run(story())
    print(f"\n{ROUNDS} rounds", *map(describe, records), sep="\n", end="")
    assert [wait for record in records for wait in record.late()] == []


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store on a server has its large data in the folder where it is opened."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def postgres_server(postgres: object) -> Iterator[PostgresServer]:
    with run_mortal(PostgresServer) as server:
        yield server


@pytest.fixture
def mongo_server(mongo_replica: object) -> Iterator[MongoServer]:
    with run_mortal(lambda: MongoServer(replica=True)) as server:
        yield server


def test_nobody_waits_on_a_file_whose_owner_changes_and_tells_only_some(tmp_path: Path) -> None:
    database, share = tmp_path / "ganger.db", 0.3
    with crew() as hired:
        nodes = [hired.start(take_turns, database, f"node-{number}", share) for number in range(2)]
        assert [node.hear() for node in nodes] == [("open",)] * 2
        client = hired.start(wait_in_turns, database, ROUNDS, share)
        changes = 0
        while not client.pipe.poll(0):
            changes += 1
            owner = hired.start(own_for_a_while, database, share)
            assert owner.hear() == ("owns",)
            if changes % 2:
                owner.kill()
            else:
                owner.ask("leave")
        (record,) = client.hear()
    print(f"\n{ROUNDS} rounds, {changes} times another owner", describe(record), sep="\n", end="")
    assert record.late() == []


def test_nobody_waits_on_postgresql_for_a_notification_that_was_dropped(postgres_server: PostgresServer) -> None:
    dropped: list[DroppingProxy] = []

    async def make(stack: AsyncExitStack) -> list[list[str]]:
        for seed, share in enumerate(SHARES):
            dropped.append(await stack.enter_async_context(DroppingProxy(postgres_server.folder, share, seed)))
        way = "postgresql://{}@/postgres?host={}&schema=world_{}"
        return [[way.format(USER, quote(str(proxy.folder)), seed)] * 3 for seed, proxy in enumerate(dropped)]

    run(make)
    assert all(proxy.dropped for proxy, share in zip(dropped, SHARES, strict=True) if share)


def test_nobody_waits_on_mongodb_for_a_stream_that_breaks(mongo_server: MongoServer) -> None:
    ports: list[CuttingPort] = []

    async def make(stack: AsyncExitStack) -> list[list[str]]:
        ways = [CuttingPort(mongo_server.port, 20_000, 400_000, seed) for seed in range(3)]
        ports.extend([await stack.enter_async_context(way) for way in ways])
        here = f":{mongo_server.port}/"
        return [
            [mongo_server.url("whole")] * 3,
            [mongo_server.url("cut").replace(here, f":{port.port}/") for port in ports],
        ]

    run(make)
    assert any(port.broken for port in ports)


def test_nobody_waits_on_a_mongodb_without_streams(mongo_url: Callable[[], str]) -> None:
    async def make(_: AsyncExitStack) -> list[list[str]]:
        return [[mongo_url()] * 3 for _ in range(2)]

    run(make)
