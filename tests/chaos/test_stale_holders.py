"""A process is stopped past its lease, comes back, and goes on as if nothing had happened: nothing of it is stored."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from ganger.core.clock import Moment
from ganger.core.errors import NodeGone
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId
from ganger.core.lease import Renewal
from ganger.core.node import Registration
from ganger.core.state import move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import (
    Claim,
    Configure,
    Exchange,
    NodeChange,
    QueueChange,
    Submission,
    Submitted,
    Tend,
)
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.chaos.harness import digest, look_into, loss_of, until
from tests.chaos.harness_stale import OPERATIONS, Held, Write, every_write, is_stale
from tests.chaos.harness_worker import PATIENCE, Crew, Worker, crew

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

LEASE: Final = 1_500
LONG: Final = 600_000


@dataclass
class Victim:
    """A process that holds two tasks: one by its node's liveness, one by touch under a node that lives on."""

    worker: Worker
    queue: QueueId
    node: NodeId
    held: tuple[Held, Held]
    until: Moment
    """When the last of its leases has ended."""

    async def try_everything(self) -> None:
        """Order every kind of write; a process that is stopped gets the orders when it goes on."""
        for write in self._writes().values():
            await self.worker.tell(OPERATIONS[type(write)], write)
        for request in self._by_node():
            await self.worker.tell(*request)

    async def check_refusals(self) -> int:
        writes = self._writes()
        answers = {name: (await self.worker.hear(OPERATIONS[type(write)])).value for name, write in writes.items()}
        assert {name: answer for name, answer in answers.items() if not is_stale(answer)} == {}
        nodes = [(await self.worker.hear(operation)).value for operation, _ in self._by_node()]
        assert [answer for answer in nodes if not isinstance(answer, NodeGone)] == []
        return len(answers) + len(nodes)

    def _writes(self) -> dict[str, Write]:
        return {f"{held.task} {name}": write for held in self.held for name, write in every_write(held).items()}

    def _by_node(self) -> list[tuple[str, Configure | Exchange]]:
        """What the node itself would do next: beat, drain, leave, claim, and settle and claim in one step."""
        node = NodeChange(id=self.node, token="secret")
        turns = [node._replace(beat=True), node._replace(drain=True), node._replace(leave=True)]
        settled = move(self.held[0].task, "succeed", self.held[0].fence)
        claim = Claim(self.node, (self.queue,), 5)
        exchanges = [Exchange(claim=claim), Exchange((settled,), claim)]
        return [("configure", Configure(node=turn)) for turn in turns] + [("exchange", one) for one in exchanges]


async def hold(worker: Worker) -> Victim:
    queue = (await worker.ask("configure", Configure(queue=QueueChange(name="work")))).queue.id
    tasks = [NewTask(queue, "payload", renewal=renewal, ttr=LEASE) for renewal in (Renewal.LIVENESS, Renewal.TOUCH)]
    children = [NewTask(queue, "payload", parents=(Edge(-1),)), NewTask(queue, "payload", parents=(Edge(-2),))]
    stranger = NewTask(queue, "payload", delay=LONG)
    made: Submitted = await worker.ask("submit", Submission((*tasks, *children, stranger)))
    nodes = [await register(worker, "mortal", LEASE), await register(worker, "lasting", LONG)]
    claims = [Claim(node, ids=(task,), start=True) for node, task in zip(nodes, made.ids[:2], strict=True)]
    claimed: list[Claimed] = [(await worker.ask("exchange", Exchange(claim=claim))).claimed[0] for claim in claims]
    held = [
        Held(one.id, one.fence, queue, child, made.ids[4]) for one, child in zip(claimed, made.ids[2:4], strict=True)
    ]
    return Victim(worker, queue, nodes[0], (held[0], held[1]), Moment(SystemClock().now() + LEASE))


async def register(worker: Worker, name: str, lease: int) -> NodeId:
    said = Registration(name, "secret", lease=lease)
    made = await worker.ask("configure", Configure(node=NodeChange(register=said)))
    number: NodeId = made.node.id
    return number


async def until_ended(victim: Victim) -> None:
    clock = SystemClock()
    await until(lambda: clock.now() >= victim.until)


def digest_of(path: Path) -> str:
    with look_into(path) as connection:
        return digest(connection)


Aftermath = Callable[[SqliteStore, Victim], Awaitable[None]]


async def nobody_looked(store: SqliteStore, victim: Victim) -> None:
    """The leases have merely ended."""


async def taken_back(store: SqliteStore, victim: Victim) -> None:
    tended = await store.tend(Tend(lapse=True))
    moves = [loss_of(lapsed) for lapsed in tended.lapsed]
    done = await store.exchange(Exchange(tuple(moves)))
    assert len(moves) == len(victim.held)
    assert done.refused == []


async def held_by_another(store: SqliteStore, victim: Victim) -> None:
    await claim_again(store, victim)


async def settled_by_another(store: SqliteStore, victim: Victim) -> None:
    claimed = await claim_again(store, victim)
    done = await store.exchange(Exchange(tuple(move(one.id, "succeed", one.fence) for one in claimed)))
    assert done.refused == []


async def claim_again(store: SqliteStore, victim: Victim) -> list[Claimed]:
    await taken_back(store, victim)
    said = Registration("rival", "other", lease=LONG)
    made = await store.configure(Configure(node=NodeChange(register=said)))
    assert made.node is not None
    claim = Claim(made.node.id, ids=tuple(held.task for held in victim.held), start=True)
    done = await store.exchange(Exchange(claim=claim))
    assert len(done.claimed) == len(victim.held)
    return done.claimed


AFTERMATHS: Final[tuple[Aftermath, ...]] = (nobody_looked, taken_back, held_by_another, settled_by_another)


async def open_store(path: Path, stack: AsyncExitStack) -> SqliteStore:
    store = await SqliteStore.open(path, SystemClock(), SystemEntropy())
    stack.push_async_callback(store.close)
    return store


async def hire(company: Crew, path: Path) -> Worker:
    worker = await company.hire(path)
    await worker.hear("open")
    return worker


@pytest.mark.parametrize("aftermath", AFTERMATHS, ids=lambda aftermath: aftermath.__name__)
def test_a_process_stopped_past_its_leases_is_refused_whatever_it_writes(aftermath: Aftermath, tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> int:
        async with AsyncExitStack() as stack:
            store = await open_store(path, stack)
            victim = await hold(await hire(await stack.enter_async_context(crew()), path))
            victim.worker.signal(signal.SIGSTOP)
            await victim.try_everything()
            await until_ended(victim)
            await aftermath(store, victim)
            before = digest_of(path)
            victim.worker.signal(signal.SIGCONT)
            refused = await victim.check_refusals()
            assert digest_of(path) == before
            return refused

    assert asyncio.run(scenario()) > 60


def test_the_owner_of_the_file_itself_stopped_past_its_leases_is_refused_too(tmp_path: Path) -> None:
    """Nobody could do anything meanwhile: the store's own clock ends the leases."""
    path = tmp_path / "store.db"

    async def scenario() -> None:
        async with crew() as company:
            victim = await hold(await hire(company, path))
            victim.worker.signal(signal.SIGSTOP)
            await victim.try_everything()
            await until_ended(victim)
            before = digest_of(path)
            victim.worker.signal(signal.SIGCONT)
            await victim.check_refusals()
            assert digest_of(path) == before

    asyncio.run(scenario())


def test_rivals_that_wait_for_a_stopped_owner_get_the_tasks_and_the_owner_nothing(tmp_path: Path) -> None:
    """The rival's orders wait at the stopped owner's door; both go on at the same moment."""
    path = tmp_path / "store.db"

    async def scenario() -> None:
        async with crew() as company:
            victim = await hold(await hire(company, path))
            rival = await hire(company, path)
            node = await register(rival, "rival", LONG)
            victim.worker.signal(signal.SIGSTOP)
            await until_ended(victim)
            await rival.tell("tend", Tend(lapse=True))
            victim.worker.signal(signal.SIGCONT)
            lapsed = (await rival.hear("tend")).value.lapsed
            assert {one.task for one in lapsed} == {held.task for held in victim.held}
            claim = Claim(node, ids=tuple(one.task for one in lapsed), start=True)
            exchange = Exchange(tuple(loss_of(one) for one in lapsed), claim)
            claimed = (await rival.ask("exchange", exchange)).claimed
            assert len(claimed) == len(victim.held)
            before = digest_of(path)
            await victim.try_everything()
            await victim.check_refusals()
            assert digest_of(path) == before
            done = await rival.ask("exchange", Exchange(tuple(move(one.id, "succeed", one.fence) for one in claimed)))
            assert done.refused == []

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await scenario()

    asyncio.run(bounded())
