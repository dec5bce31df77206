"""No question that is asked again and again walks over all tasks: the server has an index for each, and uses it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.databases.mongo import Choice, Doc, ObjectId
from ganger.engine.stores.mongo import MongoStore, choices
from ganger.engine.stores.mongo.reconciling import moved_by_others
from ganger.engine.stores.mongo.tables import TASKS
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain

pytestmark = pytest.mark.slow


def list_asked(queue: QueueId) -> dict[str, Choice[Any]]:
    """Of a queue that has tasks: where nothing is found any index is as good."""
    return {
        "ready": choices.ready(queue, [Lane("command")]),
        "delayed": choices.delayed([queue], Wall(1 << 60)),
        "delayed anywhere": choices.delayed(None),
        "limited": choices.limited(queue, "l", parked=False),
        "active of a key": choices.active_of_key(queue, "l"),
        "active of a queue": choices.active_in(ObjectId()),
        "active of a queue on a node": choices.active_in(ObjectId(), "n"),
        "active on a node": choices.active_on("n"),
        "active of a node": choices.active_of_node(NodeId(1)),
        "active of nodes": choices.active_of_nodes([NodeId(1), NodeId(2)]),
        "touched": choices.touched(Moment(1 << 60)),
        "touched later": choices.touched_after(Moment(5)),
        "keys": choices.with_keys(["a", "b"]),
        "ended": choices.ended(Wall(1 << 60)),
        "prunable": choices.prunable(Wall(1 << 60), [TaskId(1)], foreign=False),
        "prunable of strangers": choices.prunable(Wall(1 << 60), [TaskId(1)], foreign=True),
        "open groups": choices.open_groups(),
        "with output": choices.with_output(),
        "edges below": choices.below([TaskId(1)]),
        "edges above": choices.above([TaskId(1)]),
    }


RAW: dict[str, Doc] = {
    "by id": {"ganger.id": 7},
    "a stranger's": {"ganger.id": None, "ganger.pending": None, "queue": {"$in": [1, 2]}},
    "moved by a stranger": moved_by_others([1]),
    "taken for a step": {"ganger.pending": "token"},
    "a page": {"ganger.position": {"$gt": 5}, "ganger.queue": 1},
    "a page downward": {"ganger.position": {"$lt": 5}},
    "the protocol's claim": {"node": -1, "status": -2, "queue": 1},
    "the later dialect's claim": {"node": {"$in": [None, -1]}, "status": -2, "queue": 1},
}


def _stages(plan: Any) -> Iterator[str]:
    if isinstance(plan, Mapping):
        if "stage" in plan:
            yield plan["stage"]
        for part in plan.values():
            yield from _stages(part)
    if isinstance(plan, list):
        for part in plan:
            yield from _stages(part)


async def _explain(url: str) -> dict[str, set[str]]:
    async with AsyncMongoClient[dict[str, Any]](url) as client:
        # An index remembers for ever that somebody once put a list where it expects a value, and gives no order then.
        await client.drop_database(client.get_default_database().name)
    store = await MongoStore.open(url, SystemClock(), SystemEntropy())
    try:
        scene = Scene(store, FakeClock())
        queue = await scene.queue()
        # So many that it matters: of a few the server sorts as soon as it reads them in their order.
        await scene.submit(*(plain(queue) for _ in range(500)))
        asked = {
            name: (choice.table.name, choice.where, list(choice.order)) for name, choice in list_asked(queue).items()
        }
        asked |= {name: (TASKS.name, where, []) for name, where in RAW.items()}
        plans = {}
        for name, (table, where, order) in asked.items():
            found = store.database.handle[table].find(where)
            plan = (await (found.sort(order) if order else found).explain())["queryPlanner"]["winningPlan"]
            plans[name] = set(_stages(plan))
        return plans
    finally:
        await store.close()


def test_every_question_has_its_index(mongo_url: Callable[[], str]) -> None:
    plans = asyncio.run(_explain(mongo_url()))
    assert {name: stages for name, stages in plans.items() if "COLLSCAN" in stages or "IXSCAN" not in stages} == {}


def test_a_claim_and_upkeep_read_in_order_without_sorting(mongo_url: Callable[[], str]) -> None:
    plans = asyncio.run(_explain(mongo_url()))
    in_order = ("ready", "delayed anywhere", "touched", "touched later", "ended")
    assert {name: plans[name] for name in in_order if "SORT" in plans[name]} == {}
