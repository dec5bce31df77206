"""A database that others have filled is looked at before anything is written into it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient

from ganger.core.errors import BadInput, Conflict
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


def open_and_close(url: str, dialect: str | None = None) -> str:
    """The dialect that the store says it has."""

    async def run() -> str:
        store = await MongoStore.open(url, SystemClock(), SystemEntropy(), dialect=dialect)
        await store.close()
        return store.dialect

    return asyncio.run(run())


def test_a_database_of_the_protocols_own_words_is_opened(mongo_url: Callable[[], str]) -> None:
    url = mongo_url()
    fill(url, PLAIN, tasks=({"parameters": {}, "status": -2, "node": -1},))

    open_and_close(url)
    assert "ganger_store" in list_filled(url)


def test_a_database_of_both_dialects_is_refused_and_left_as_it_is(mongo_url: Callable[[], str]) -> None:
    mixed, tasks = mongo_url(), mongo_url()
    fill(mixed, PLAIN, LATER)
    fill(tasks, PLAIN, tasks=({"params": {}, "status": -2, "node": None},))

    for url in (mixed, tasks):
        with pytest.raises(Conflict, match="both Disbatch dialects"):
            open_and_close(url)
        assert list_filled(url) <= {"tasks", "queues"}


def test_a_database_of_later_words_is_opened_with_them_and_never_with_others(mongo_url: Callable[[], str]) -> None:
    url = mongo_url()
    fill(url, LATER, tasks=({"params": {}, "status": -2, "node": None},))

    with pytest.raises(Conflict, match="plain was asked for"):
        open_and_close(url, "plain")
    assert list_filled(url) == {"tasks", "queues"}
    assert (open_and_close(url), open_and_close(url, "later")) == ("later", "later")


def test_a_dialect_is_written_into_the_database_when_that_is_made(mongo_url: Callable[[], str]) -> None:
    plain, later = mongo_url(), mongo_url()
    assert (open_and_close(plain), open_and_close(f"{later}&dialect=later")) == ("plain", "later")
    assert (open_and_close(plain), open_and_close(later)) == ("plain", "later")

    for url, other in ((plain, "later"), (later, "plain")):
        with pytest.raises(Conflict, match="a database speaks one"):
            open_and_close(url, other)
    with pytest.raises(BadInput, match="plain or later"):
        open_and_close(f"{plain}&dialect=latest")


def test_what_others_write_in_other_words_afterwards_keeps_the_next_from_starting(mongo_url: Callable[[], str]) -> None:
    url = mongo_url()
    open_and_close(url, "later")
    fill(url, PLAIN)

    with pytest.raises(Conflict, match=r"set to the later dialect.*documents of the plain one"):
        open_and_close(url)
