"""An installation of Disbatch as it lies in a database, in the words of either dialect, and a store beside it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest
from bson import ObjectId

from tests.contract.beside import DEMO, Story, insert, tell_story

LONG_AGO: Final = datetime(2019, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
PLACES: Final = [
    pytest.param((url, dialect), id=f"{url.removesuffix('_url')}-{dialect}")
    for url in ("mongo_url", "mongo_replica_url")
    for dialect in ("plain", "later")
]


class Installation(NamedTuple):
    """Makes what the programs of Disbatch make, in one dialect."""

    dialect: str
    url: str

    @property
    def is_later(self) -> bool:
        return self.dialect == "later"

    def tell(self, story: Story) -> None:
        tell_story(self.url, story, self.dialect)

    async def make_queue(self, database: Any, name: Any = "demo", limit: Any = None, **fields: Any) -> ObjectId:
        """A queue with a limit: on each node, or in the later dialect over all of them."""
        words = ("plugin", "threads") if self.is_later else ("constructor", "maxthreads")
        return await insert(database.queues, {"name": name, words[0]: DEMO, words[1]: limit, **fields})

    async def add_task(self, database: Any, queue: Any, **fields: Any) -> ObjectId:
        return await insert(database.tasks, self.word_task(queue, **fields))

    def word_task(self, queue: Any, **fields: Any) -> dict[str, Any]:
        node, params = (None, "params") if self.is_later else (-1, "parameters")
        times = {"ctime": LONG_AGO, "mtime": LONG_AGO}
        said = {"queue": queue, "node": node, "status": -2, params: {"user": "ada"}, "stdout": None, "stderr": None}
        return {**times, **said, **fields}


def install(request: pytest.FixtureRequest) -> Installation:
    """For a fixture with the parameters PLACES."""
    fixture, dialect = request.param
    give: Callable[[], str] = request.getfixturevalue(fixture)
    return Installation(dialect, give())


async def read_all(database: Any) -> dict[str, list[dict[str, Any]]]:
    """Every document of the protocol's collections, as it lies there."""
    names = ("tasks", "queues", "nodes", "tasks.files", "tasks.chunks")
    return {name: await database[name].find().sort("_id", 1).to_list() for name in names}
