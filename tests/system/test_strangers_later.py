"""Nodes of two makes on one database of the later dialect: Ganger's, and programs of the later releases of Disbatch."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.foreign.shared import Shared
from tests.foreign.yard import PATIENCE, PLUGIN

TASKS: Final = int(os.environ.get("GANGER_TEST_STRANGERS", "60"))
SLEEP: Final = float(os.environ.get("GANGER_TEST_STRANGERS_SLEEP", "0.1"))
THREADS: Final = 10


class LaterYard(Shared):
    """The same yard, with strangers of the later dialect."""

    commander = "later.py"

    def word_den(self, node: str) -> list[str]:
        return ["later.py", self.url, "den", node, str(self.log)]


@pytest.fixture(params=["mongo_url", "mongo_replica_url"], ids=["standalone", "replica set"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LaterYard]:
    give: Callable[[], str] = request.getfixturevalue(request.param)
    made = LaterYard(give(), tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(300 + TASKS)
def test_three_nodes_of_two_makes_run_each_task_once_in_the_later_dialect(yard: LaterYard) -> None:
    yard.command("queue", "demo", THREADS)
    yard.start_den("stranger")
    for name in ("ganger-1", "ganger-2"):
        yard.start_node(name, sleep=SLEEP)
    yard.until(lambda: yard.base.nodes.count_documents({}) == 3)
    # The limit of the queue is one over all nodes: each must leave some to the others by limits of its own.
    yard.base.nodes.update_one({"node": "stranger"}, {"$set": {"maxthreads": 2}})
    yard.run("queue", "change", "demo", "--max-per-node", "2")
    yard.command("tasks", "demo", TASKS, SLEEP)
    yard.until(lambda: yard.count(status=1, complete=True) == TASKS, PATIENCE + TASKS)

    runs = yard.count_runs()
    assert (len(runs), set(runs.values())) == (TASKS, {1})
    assert yard.list_runners() == {"stranger", "ganger-1", "ganger-2"}
    printed = {task["params"]["n"]: task["stdout"].strip() for task in yard.base.tasks.find()}
    assert printed == {n: str(n) for n in range(TASKS)}
    queue = yard.base.queues.find_one({"name": "demo"})
    assert (queue["plugin"], queue["threads"]) == (PLUGIN, THREADS)
    assert not {"constructor", "maxthreads", "count_todo", "count_total"} & set(queue)
    assert all("parameters" not in task for task in yard.base.tasks.find())


@pytest.mark.slow
def test_a_stranger_of_the_later_dialect_runs_what_is_made_by_ganger(yard: LaterYard) -> None:
    assert yard.run("disbatch", "dialect") == "none yet\n"
    assert yard.run("disbatch", "dialect", "later") == "later\n"
    yard.run("disbatch", "create", "demo", PLUGIN, "--threads", "2")
    ids = [yard.run("disbatch", "add", "demo", f'{{"n": {n}}}') for n in range(3)]
    yard.run("submit", "--", "true")
    yard.start_den("stranger")
    yard.until(lambda: yard.count(status=1, node="stranger", complete=True) == len(ids))

    ours = yard.base.queues.find_one({"name": "default"})
    assert (ours["plugin"], yard.count(queue=ours["_id"], status=-2, node=None)) == ("Ganger", 1)
    assert yard.run("disbatch", "dialect") == "later\n"
