"""Each operation of the engine names the operations of the store that it uses, and uses no other."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from ganger.core.graph import Edge
from ganger.core.ids import Position, TaskId
from ganger.core.node import Registration, Vitals
from ganger.core.outcome import Crashed, Fail, Succeed
from ganger.core.queue import Policy
from ganger.core.task import Kind
from ganger.core.token import Attempt
from ganger.engine.engine import Engine
from ganger.engine.nodes import Nodes
from ganger.engine.queues import Queues
from ganger.engine.store import Edit, Note, Progress, Query, Store
from tests.unit.engine.stage import Stage, play

OPERATIONS = {name for name in vars(Store) if not name.startswith("_")} - {"capabilities"}
WITHOUT = {"close", "keep", "peek", "peek_named", "strangers", "name_holder"}
"""They use none of them: the last two ask what only some stores offer besides."""


def operations() -> Iterator[tuple[str, Callable[..., Any]]]:
    for owner in (Engine, Queues, Nodes):
        for name, found in vars(owner).items():
            if not name.startswith("_") and inspect.isfunction(found) and name not in WITHOUT:
                yield f"{owner.__name__}.{name}", found


def uses(operation: Callable[..., Any]) -> set[str]:
    found = re.search(r"Uses: (?P<names>[^.]+)\.", inspect.getdoc(operation) or "")
    bare = re.sub(r"\([^)]*\)", "", found["names"]) if found else ""
    return {name.strip() for name in re.split("[,;]", " ".join(bare.split()))}


@pytest.mark.parametrize(("name", "operation"), [pytest.param(n, o, id=n) for n, o in operations()])
def test_the_operation_names_operations_of_the_store(name: str, operation: Callable[..., Any]) -> None:
    assert uses(operation) <= OPERATIONS, name
    assert uses(operation) != {""}


def test_the_store_has_at_most_fifteen_operations() -> None:
    assert len(OPERATIONS) <= 15


def test_every_operation_of_the_store_is_used() -> None:
    used = {name for _, operation in operations() for name in uses(operation)}

    assert used | {"tend"} == OPERATIONS


async def claimed(stage: Stage) -> Any:
    await stage.submit_many(1)
    return await stage.take_one()


async def held(stage: Stage) -> TaskId:
    (task,) = await stage.submit_many(1)
    await stage.engine.hold([task], by="test")
    return task


async def final(stage: Stage) -> TaskId:
    (task,) = await stage.submit_many(1)
    await stage.engine.cancel([task], by="test")
    return task


async def group(stage: Stage) -> TaskId:
    first, *_ = await stage.submit(stage.task(Kind.GROUP, open_group=True), stage.task(group=-1))
    return first


async def condition(stage: Stage) -> TaskId:
    (task,) = await stage.submit(stage.task(Kind.CONDITION))
    return task


async def pair(stage: Stage) -> list[TaskId]:
    return await stage.submit(stage.task(), stage.task(parents=(Edge(-1),)))


async def two(stage: Stage) -> list[TaskId]:
    return await stage.submit_many(2)


async def nothing(stage: Stage) -> None:
    return None


async def stuck(stage: Stage) -> None:
    await stage.submit_many(1)
    stage.fake.advance(20_000)
    await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=Vitals(slots=1))


async def left(stage: Stage) -> None:
    await stage.engine.nodes.leave(stage.node.id, "token of ada")


async def post_now(stage: Stage, _: None) -> None:
    posted = await asyncio.to_thread(stage.engine.post_now, [stage.task()])
    assert posted is not None
    assert (await asyncio.to_thread(posted)).ids


async def walk(stage: Stage) -> None:
    assert [task.kind async for task in stage.engine.walk(Query())]


async def subscribe(stage: Stage) -> None:
    events = stage.engine.subscribe(Position(0))
    await anext(events)
    await events.aclose()


async def follow(stage: Stage, task: TaskId) -> None:
    assert [piece async for piece in stage.engine.follow_output(task)] == []


Deed = Callable[[Stage, Any], Awaitable[Any]]
DEEDS: dict[str, tuple[Callable[[Stage], Awaitable[Any]], Deed]] = {
    "Engine.submit": (nothing, lambda s, x: s.engine.submit([s.task()])),
    "Engine.post_now": (nothing, post_now),
    "Engine.claim": (two, lambda s, x: s.engine.claim(s.ask())),
    "Engine.wait_claim": (two, lambda s, x: s.engine.wait_claim(s.ask())),
    "Engine.settle": (claimed, lambda s, x: s.engine.settle([(x, Crashed())], s.ask())),
    "Engine.settle_each": (claimed, lambda s, x: s.engine.settle_each([(x, Crashed(), s.ask())])),
    "Engine.settle_leases": (claimed, lambda s, x: s.engine.settle_leases([(x.lease, Fail())])),
    "Engine.settle_by_lease": (claimed, lambda s, x: s.engine.settle_by_lease(x.lease, Fail())),
    "Engine.release": (claimed, lambda s, x: s.engine.release(x.lease)),
    "Engine.conclude": (condition, lambda s, x: s.engine.conclude(x, True)),
    "Engine.start": (claimed, lambda s, x: s.engine.start([x.lease])),
    "Engine.renew": (claimed, lambda s, x: s.engine.renew([x.lease])),
    "Engine.progress": (claimed, lambda s, x: s.engine.progress(x.lease, 1)),
    "Engine.write": (claimed, lambda s, x: s.engine.write([Note(x.id, x.fence, progress=Progress(1, None))])),
    "Engine.put_data": (claimed, lambda s, x: s.engine.put_data(x.lease, "a", b"b")),
    "Engine.put_kin_data": (claimed, lambda s, x: s.engine.put_kin_data(Attempt(x.lease), x.id, "a", b"b")),
    "Engine.append_output": (claimed, lambda s, x: s.engine.append_output(x.lease, "a", 0, b"b")),
    "Engine.read_data": (claimed, lambda s, x: s.engine.read_data(x.id, "spec")),
    "Engine.read_page": (claimed, lambda s, x: s.engine.read_page(x.id, "spec")),
    "Engine.read_output": (claimed, lambda s, x: s.engine.read_output(x.id, "stdout")),
    "Engine.follow_output": (final, follow),
    "Engine.hold": (two, lambda s, x: s.engine.hold(x, by="test")),
    "Engine.kick": (held, lambda s, x: s.engine.kick([x], by="test")),
    "Engine.kick_queue": (held, lambda s, x: s.engine.kick_queue(s.queue.id, 1, by="test")),
    "Engine.cancel": (group, lambda s, x: s.engine.cancel([x], by="test")),
    "Engine.kill": (two, lambda s, x: s.engine.kill(x, by="test")),
    "Engine.orphan": (left, lambda s, x: s.engine.orphan("ada", by="test")),
    "Engine.edit": (two, lambda s, x: s.engine.edit([Edit(x[0], kill=True)], by="test")),
    "Engine.link": (two, lambda s, x: s.engine.link(x[1], x[0], by="test")),
    "Engine.unlink": (pair, lambda s, x: s.engine.unlink(x[1], x[0], by="test")),
    "Engine.remove": (pair, lambda s, x: s.engine.remove(x[0], by="test", descendants=True, kill=True)),
    "Engine.close_group": (group, lambda s, x: s.engine.close_group(x, by="test")),
    "Engine.retry_final": (final, lambda s, x: s.engine.retry_final(x, by="test")),
    "Engine.wait": (final, lambda s, x: s.engine.wait([x])),
    "Engine.tasks": (two, lambda s, x: s.engine.tasks(x)),
    "Engine.find": (two, lambda s, x: s.engine.find(Query())),
    "Engine.walk": (two, lambda s, x: walk(s)),
    "Engine.look": (final, lambda s, x: s.engine.look(x)),
    "Engine.counts": (nothing, lambda s, x: s.engine.counts()),
    "Engine.explain": (pair, lambda s, x: s.engine.explain(x[1])),
    "Engine.family": (claimed, lambda s, x: s.engine.family(x.lease)),
    "Engine.readiness": (stuck, lambda s, x: s.engine.readiness()),
    "Engine.events": (two, lambda s, x: s.engine.events(Position(0))),
    "Engine.subscribe": (two, lambda s, x: subscribe(s)),
    "Engine.verify_audit": (nothing, lambda s, x: s.engine.verify_audit()),
    "Queues.all": (nothing, lambda s, x: s.engine.queues.all()),
    "Queues.get": (nothing, lambda s, x: s.engine.queues.get(s.queue.id)),
    "Queues.named": (nothing, lambda s, x: s.engine.queues.named("mail")),
    "Queues.create": (nothing, lambda s, x: s.engine.queues.create("new", by="test")),
    "Queues.ensure": (nothing, lambda s, x: s.engine.queues.ensure("new", by="test")),
    "Queues.change": (nothing, lambda s, x: s.engine.queues.change(s.queue.id, Policy(becomes=s.queue.id), by="test")),
    "Queues.rename": (nothing, lambda s, x: s.engine.queues.rename(s.queue.id, "new", by="test")),
    "Queues.pause": (nothing, lambda s, x: s.engine.queues.pause(s.queue.id, by="test")),
    "Queues.resume": (nothing, lambda s, x: s.engine.queues.resume(s.queue.id, by="test")),
    "Queues.delete": (nothing, lambda s, x: s.engine.queues.delete(s.queue.id, by="test")),
    "Nodes.all": (nothing, lambda s, x: s.engine.nodes.all()),
    "Nodes.in_hand": (nothing, lambda s, x: s.engine.nodes.in_hand([s.node])),
    "Nodes.register": (nothing, lambda s, x: s.engine.nodes.register(Registration("bob", "t"))),
    "Nodes.beat": (nothing, lambda s, x: s.engine.nodes.beat(s.node.id, "token of ada")),
    "Nodes.drain": (nothing, lambda s, x: s.engine.nodes.drain("ada", by="test")),
    "Nodes.limit": (nothing, lambda s, x: s.engine.nodes.limit("ada", 3, by="test")),
    "Nodes.resume": (nothing, lambda s, x: s.engine.nodes.resume("ada", by="test")),
    "Nodes.leave": (nothing, lambda s, x: s.engine.nodes.leave(s.node.id, "token of ada")),
}


def test_every_operation_is_tried_here() -> None:
    assert set(DEEDS) == {name for name, _ in operations()}


@pytest.mark.parametrize(("name", "operation"), [pytest.param(n, o, id=n) for n, o in operations()])
def test_the_operation_uses_what_it_names_and_nothing_else(name: str, operation: Callable[..., Any]) -> None:
    prepare, do = DEEDS[name]

    async def scenario(stage: Stage) -> None:
        what = await prepare(stage)
        stage.store.asked.clear()
        await do(stage, what)
        assert set(stage.store.asked) <= uses(operation)
        assert stage.store.asked

    play(scenario)


def test_success_needs_no_more_than_the_exchange() -> None:
    async def scenario(stage: Stage) -> None:
        one = await claimed(stage)
        stage.store.asked.clear()
        await stage.engine.settle([(one, Succeed())], stage.ask())
        assert stage.store.asked == {"exchange": 1}

    play(scenario)
