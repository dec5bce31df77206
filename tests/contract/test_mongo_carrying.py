"""`ganger export` from one store, `ganger import` into a MongoDB store: every task, result and graph is kept."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient

from tests.contract import test_postgres_carrying as carrying

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_all_that_was_in_a_file_is_in_mongodb(
    tmp_path: Path, mongo_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying.test_all_that_was_in_a_file_is_in_the_database(tmp_path, mongo_url, monkeypatch)


def test_what_strangers_gave_their_tasks_goes_along_and_comes_back(
    tmp_path: Path, mongo_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, between, target = mongo_url(), f"sqlite:{tmp_path / 'tasks.db'}", mongo_url()
    added = {"owner": "ada", "since": datetime(2020, 1, 2, tzinfo=UTC), "mark": ObjectId(), "tags": [{"a": 1.5}]}
    with MongoClient[dict[str, Any]](source, tz_aware=True) as client:
        base = client.get_default_database()
        queue = base.queues.insert_one({"name": "demo", "constructor": "Demo", "maxthreads": 2}).inserted_id
        task = {"queue": queue, "ctime": added["since"], "node": -1, "parameters": {"n": 1}, **added}
        base.tasks.insert_many([{**task, "status": -2}, {**task, "status": 1, "node": "theirs", "stdout": "done"}])
    for url, other in ((source, between), (between, target)):
        carrying.call(other, tmp_path, "import", "-", types=carrying.call(url, tmp_path, "export"))

    with MongoClient[dict[str, Any]](target, tz_aware=True) as client:
        moved = list(client.get_default_database().tasks.find().sort("status", 1))
    assert [one["status"] for one in moved] == [-2, 1]
    assert [{name: one[name] for name in added} for one in moved] == [added, added]
    assert [one["parameters"] for one in moved] == [{"n": 1}, {"n": 1}]
