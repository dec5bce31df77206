"""A task that is written in a transaction of the application's is there if, and only if, that commits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from ganger import Ganger
from ganger.client import command
from ganger.core.errors import BadInput, DuplicateKey
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.task import NewTask, Task
from ganger.databases.postgres import read_address
from ganger.engine.engine import Engine
from ganger.engine.store import Claim, Query, Tend
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
PATIENCE = 60.0
SAY = "INSERT INTO inbox (key, body) VALUES ($1, $2)"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Engine, asyncpg.Connection]]:
    """An engine, and a connection of an application to the same database."""
    clock, entropy = SystemClock(), SystemEntropy()
    store = await PostgresStore.open(url, clock, entropy)
    engine, connection = Engine(store, clock, entropy), await asyncpg.connect(read_address(url).url)
    try:
        yield engine, connection
    finally:
        await connection.close()
        await engine.close()
        await store.close()


def run(url: str, tell: Callable[[Engine, Any], Awaitable[None]]) -> None:
    async def story() -> None:
        async with asyncio.timeout(PATIENCE), opened(url) as (engine, connection):
            await tell(engine, connection)

    asyncio.run(story())


async def listed(engine: Engine) -> list[Task]:
    """What there is once the inbox was looked into."""
    await engine.store.tend(Tend(promote=True))
    return (await engine.find(Query())).tasks


async def join(engine: Engine, *queues: QueueId) -> Claim:
    node = await engine.nodes.register(Registration("ada", "ada", lease=600_000))
    return Claim(NodeId(node.id), queues, 10)


def test_a_commit_makes_the_task_and_a_rollback_none(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        await connection.execute("CREATE TEMPORARY TABLE customer (name text)")
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO customer VALUES ('ann')")
        (key,) = await app.using(connection).asend([command(["true"], queue="mail", priority=7)])
        assert await listed(engine) == [], "nothing is seen before the commit"
        await transaction.rollback()
        assert await listed(engine) == []

        async with connection.transaction():
            (key,) = await app.using(connection).asend([command(["true"], queue="mail", priority=7)])
        (task,) = await listed(engine)
        assert (task.key, task.priority, task.kind) == (key, 7, "command")
        (queue,) = await engine.queues.all()
        assert queue.name == "mail"

    run(url, tell)


def test_a_commit_wakes_who_waits_for_work(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        queue = await engine.queues.ensure("mail", by="test")
        claim = await join(engine, queue.id)
        waiting = asyncio.ensure_future(engine.wait_claim(claim, PATIENCE))
        await app.using(connection).asend([command(["true"], queue="mail")])
        (claimed,) = await waiting
        assert claimed.queue == queue.id

    run(url, tell)


def test_a_letter_that_nobody_heard_of_is_found_all_the_same(postgres_url: Callable[[], str]) -> None:
    """As behind a pooler that swallows every notification."""
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        queue = await engine.queues.ensure("mail", by="test")
        claim = await join(engine, queue.id)
        waiting = asyncio.ensure_future(engine.wait_claim(claim, PATIENCE))
        await connection.execute(f"SET search_path = {read_address(url).schema}")
        await connection.execute(SAY, *app.outbox_row(command(["true"], queue="mail")))
        assert len(await waiting) == 1

    run(url, tell)


def test_whoever_settles_leaves_the_letters_alone(postgres_url: Callable[[], str]) -> None:
    """What was settled and taken must be told, whatever becomes of the letters."""
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        queue = await engine.queues.ensure("mail", by="test")
        claim = (await join(engine, queue.id))._replace(most=1)
        await engine.submit([NewTask(queue.id, "payload")] * 2)
        (first,) = await engine.claim(claim)
        await app.using(connection).asend([command(["true"], queue="mail")])
        settled = await engine.settle([(first, Succeed())], claim)
        assert [one.kind for one in settled.claimed] == ["payload"]
        await engine.settle([(settled.claimed[0], Succeed())])
        assert [one.kind for one in await engine.claim(claim)] == ["command"]

    run(url, tell)


def test_one_key_is_one_task(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        inbox, call = app.using(connection), command(["true"], key="k", on_conflict="refuse")
        assert await inbox.asend([call]) == ["k"]
        with pytest.raises(DuplicateKey):
            await inbox.asend([call])
        assert await inbox.asend([call.using(on_conflict="return")]) == ["k"]
        (task,) = await listed(engine)
        with pytest.raises(DuplicateKey):
            await inbox.asend([call])
        await inbox.asend([call.using(on_conflict="return")])
        assert [one.id for one in await listed(engine)] == [task.id]

    run(url, tell)


def test_a_letter_that_is_no_task_is_set_aside_and_holds_up_nobody(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        await connection.execute(f"SET search_path = {read_address(url).schema}")
        await connection.execute(SAY, "bad", "{}")
        await connection.execute(
            SAY, "lost", app.outbox_row(command(["true"])).body.replace('"priority"', '"parents":[99],"priority"')
        )
        await app.using(connection).asend([command(["true"], key="good")])
        assert [task.key for task in await listed(engine)] == ["good"]
        rows = await connection.fetch("SELECT key, error FROM inbox ORDER BY number")
        assert [row["key"] for row in rows] == ["bad", "lost"]
        assert rows[0]["error"].startswith("bad_input: ")
        assert await listed(engine) != []

    run(url, tell)


def test_many_letters_become_tasks_in_their_order(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, connection: Any) -> None:
        calls = [command(["echo", str(number)], key=f"k{number}") for number in range(1_500)]
        keys = await app.using(connection).asend(calls)
        await engine.store.tend(Tend(promote=True))
        (counts,), _ = await engine.counts()
        assert counts.total == 1_500
        first = (await engine.find(Query(most=3))).tasks
        assert [task.key for task in first] == keys[:3]

    run(url, tell)


def test_psycopg_takes_it_in_both_its_kinds(postgres: object, postgres_url: Callable[[], str]) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = postgres_url()
    app = Ganger(url)

    async def tell(engine: Engine, _connection: Any) -> None:
        address = read_address(url).url
        with psycopg.connect(address) as sync, pytest.raises(BadInput):
            await app.using(sync).asend([command(["true"])])
        with psycopg.connect(address) as sync:
            app.using(sync).send([command(["true"], key="sync")])
        async with await psycopg.AsyncConnection.connect(address) as connection:
            with pytest.raises(BadInput):
                app.using(connection).send([command(["true"])])
            await app.using(connection).asend([command(["true"], key="async")])
        with psycopg.connect(address) as undone:
            app.using(undone).send([command(["true"], key="undone")])
            undone.rollback()
        assert [task.key for task in await listed(engine)] == ["sync", "async"]

    run(url, tell)


def test_an_application_needs_no_more_rights_than_to_write_letters(
    postgres: object, postgres_url: Callable[[], str]
) -> None:
    if not isinstance(postgres, PostgresServer):
        pytest.skip("roles are made only on a server of the tests' own")
    url = postgres_url()
    app, schema = Ganger(url), read_address(url).schema
    role = f"{schema}_app"

    async def tell(engine: Engine, connection: Any) -> None:
        await connection.execute(
            f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};"
            f"GRANT SELECT (key), INSERT (key, body) ON {schema}.inbox TO {role};"
            f"GRANT SELECT (key) ON {schema}.task_key TO {role}"
        )
        theirs = await asyncpg.connect(read_address(url).url.replace("//tests@", f"//{role}@"))
        try:
            await app.using(theirs).asend([command(["true"])])
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await theirs.execute(f"DELETE FROM {schema}.task")
        finally:
            await theirs.close()
        assert len(await listed(engine)) == 1

    run(url, tell)


def test_a_store_elsewhere_has_no_inbox_for_it() -> None:
    with pytest.raises(BadInput, match="outbox"):
        Ganger("sqlite:tasks.db").using(object())
