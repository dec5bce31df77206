"""A database that others have filled is looked at before anything is written into it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient

from ganger.core.errors import Conflict
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

PLAIN = {"name": "plain", "constructor": "Demo"}
LATER = {"name": "later", "plugin": "Demo", "threads": 4}


def fill(url: str, *queues: dict[str, Any], tasks: tuple[dict[str, Any], ...] = ()) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        base = client.get_default_database()
        for queue in queues:
            base.queues.insert_one(dict(queue))
        for task in tasks:
            base.tasks.insert_one(dict(task))


def list_filled(url: str) -> set[str]:
    """The collections that have documents."""
    with MongoClient[dict[str, Any]](url) as client:
        base = client.get_default_database()
        return {name for name in base.list_collection_names() if base[name].find_one() is not None}


def open_and_close(url: str) -> None:
    async def run() -> None:
        store = await MongoStore.open(url, SystemClock(), SystemEntropy())
        await store.close()

    asyncio.run(run())


def test_a_database_of_the_protocols_own_words_is_opened(mongo_url: Callable[[], str]) -> None:
    url = mongo_url()
    fill(url, PLAIN, tasks=({"parameters": {}, "status": -2, "node": -1},))

    open_and_close(url)
    assert "ganger_store" in list_filled(url)


def test_a_database_of_later_words_or_of_both_is_refused_and_left_as_it_is(mongo_url: Callable[[], str]) -> None:
    later, mixed, tasks = mongo_url(), mongo_url(), mongo_url()
    fill(later, LATER)
    fill(mixed, PLAIN, LATER)
    fill(tasks, tasks=({"params": {}, "status": -2, "node": None},))

    for url, said in ((later, "later Disbatch dialect"), (mixed, "both Disbatch dialects"), (tasks, "later")):
        with pytest.raises(Conflict, match=said):
            open_and_close(url)
        assert list_filled(url) <= {"tasks", "queues"}
