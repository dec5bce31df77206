"""Nodes of two makes on one database: Ganger's, and programs written from the text of the Disbatch protocol."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.foreign.dcn import describe
from tests.foreign.shared import Shared
from tests.foreign.yard import PATIENCE, PLUGIN

TASKS: Final = int(os.environ.get("GANGER_TEST_STRANGERS", "100"))
SLEEP: Final = float(os.environ.get("GANGER_TEST_STRANGERS_SLEEP", "0.1"))
"""How long each of those tasks takes, in seconds."""


@pytest.fixture
def yard(mongo_url: Callable[[], str], tmp_path: Path) -> Iterator[Shared]:
    made = Shared(mongo_url(), tmp_path)
    yield made
    made.close()


@pytest.fixture
def replicated(mongo_replica_url: Callable[[], str], tmp_path: Path) -> Iterator[Shared]:
    made = Shared(mongo_replica_url(), tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(300 + TASKS)
def test_three_nodes_of_two_makes_run_each_task_once(yard: Shared) -> None:
    run_side_by_side(yard)


@pytest.mark.slow
@pytest.mark.timeout(300 + TASKS)
def test_so_they_do_on_a_replica_set(replicated: Shared) -> None:
    run_side_by_side(replicated)


@pytest.fixture
def perl() -> None:
    """The driver of MongoDB for Perl. Without it a test is skipped at home, in so many words, and fails in CI."""
    found = shutil.which("perl") and not subprocess.run(["perl", "-MMongoDB", "-e", "1"], check=False).returncode
    if not found:
        missing = "there is no driver for Perl (Debian: libmongodb-perl)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(f"NOT TESTED beside Perl: {missing}")


@pytest.mark.slow
@pytest.mark.timeout(300 + TASKS)
@pytest.mark.usefixtures("perl")
def test_so_they_do_beside_a_node_in_perl(yard: Shared) -> None:
    run_side_by_side(yard, yard.start_perl_den)


def run_side_by_side(yard: Shared, start: Callable[[str], object] | None = None) -> None:
    # None of them is done before the others have heard of it.
    yard.command("queue", "demo", 2)
    (start or yard.start_den)("stranger")
    for name in ("ganger-1", "ganger-2"):
        yard.start_node(name, sleep=SLEEP)
    yard.until(lambda: yard.base.nodes.count_documents({}) == 3)
    yard.command("tasks", "demo", TASKS, SLEEP)
    yard.until(lambda: yard.count(status=1) == TASKS, PATIENCE + TASKS)

    runs = yard.count_runs()
    assert (len(runs), set(runs.values())) == (TASKS, {1})
    assert yard.list_runners() == {"stranger", "ganger-1", "ganger-2"}
    yard.until(lambda: yard.base.queues.find_one({"name": "demo"})["count_todo"] == 0)
    queue = yard.base.queues.find_one({"name": "demo"})
    assert (queue["constructor"], queue["count_total"]) == (PLUGIN, TASKS)
    printed = {task["parameters"]["n"]: task["stdout"].strip() for task in yard.base.tasks.find()}
    assert printed == {n: str(n) for n in range(TASKS)}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_killed_nodes_had_in_hand_is_orphaned_and_nothing_runs_twice(yard: Shared) -> None:
    kill_some(yard)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_so_it_is_on_a_replica_set(replicated: Shared) -> None:
    kill_some(replicated)


def kill_some(yard: Shared) -> None:
    yard.command("queue", "demo", 4)
    den, node = yard.start_den("stranger"), yard.start_node("ganger-1", sleep=1)
    yard.start_node("ganger-2", sleep=1)
    yard.until(lambda: yard.base.nodes.count_documents({}) == 3)
    yard.command("tasks", "demo", 60, 1)
    for name, process in (("stranger", den), ("ganger-1", node)):
        yard.until(partial(catch_busy, yard, name, process))
        yard.stop(process, signal.SIGKILL)
    yard.start_den("stranger")
    yard.until(lambda: yard.count(status={"$in": [-2, -1, 0]}) == 0, 3 * PATIENCE)

    assert set(yard.count_runs().values()) == {1}
    assert yard.count(status=1) + yard.count(status=-6) == 60
    assert yard.count(status=-6, node="stranger") > 0
    yard.until(lambda: yard.base.queues.find_one({"name": "demo"})["count_todo"] == yard.count(status=-6))


def catch_busy(yard: Shared, name: str, process: subprocess.Popen[bytes]) -> bool:
    """Does it stand still with a task in hand? One that goes on meanwhile may just have ended all that it had."""
    process.send_signal(signal.SIGSTOP)
    if yard.is_busy(name):
        return True
    process.send_signal(signal.SIGCONT)
    return False


@pytest.mark.slow
def test_a_strangers_tasks_are_left_to_it_until_somebody_says_that_it_is_no_more(yard: Shared) -> None:
    yard.command("queue", "demo", 2)
    yard.command("tasks", "demo", 3, 600)
    den = yard.start_den("stranger")
    yard.until(lambda: yard.count(status=0, node="stranger") == 2)
    yard.stop(den, signal.SIGKILL)
    yard.run("disbatch", "status")
    assert yard.count(status=0, node="stranger") == 2

    with pytest.raises(subprocess.CalledProcessError):
        # It was heard of a moment ago.
        yard.run("disbatch", "orphan", "stranger")
    assert yard.count(status=0, node="stranger") == 2
    yard.run("disbatch", "orphan", "stranger", "--force")
    assert (yard.count(status=-6, node="stranger"), yard.count(status=-2)) == (2, 1)
    assert "node.orphan" in str(yard.base.ganger_audit.find_one({}, sort=[("_id", -1)]))


@pytest.mark.slow
def test_each_make_leaves_alone_what_is_not_its_own(yard: Shared) -> None:
    yard.command("queue", "demo")
    queue = yard.base.queues.find_one({"name": "demo"})["_id"]
    yard.base.tasks.insert_one({**describe(queue, {"n": -20}), "status": -20, "mark": "stays"})
    yard.start_den("stranger")
    yard.start_node("ganger-1")
    yard.run("run", "--", "true")
    yard.command("tasks", "demo", 20)
    yard.until(lambda: yard.count(status=1) == 21)

    ours = yard.base.queues.find_one({"name": "default"})
    assert (ours["constructor"], yard.count(queue=ours["_id"], node="ganger-1")) == ("Ganger", 1)
    strange = yard.base.tasks.find_one({"status": -20})
    assert (strange["node"], strange["mark"], "-20" in yard.count_runs()) == (-1, "stays", False)


@pytest.mark.slow
def test_an_operator_is_told_what_is_left_alone_and_why(yard: Shared) -> None:
    yard.command("queue", "demo")
    queue = yard.base.queues.find_one({"name": "demo"})["_id"]
    odd = yard.base.tasks.insert_one({**describe(queue, {"n": 7}), "status": "queued"}).inserted_id
    yard.start_node("ganger-1")
    yard.command("tasks", "demo", 3)
    yard.until(lambda: yard.count(status=1) == 3)
    ran = yard.base.tasks.find_one({"status": 1})["_id"]

    assert f"left alone: tasks {odd}: its status is 'queued'" in yard.run("doctor")
    assert "its status is 'queued' [odd_document]" in yard.run("why", str(odd))
    assert "[succeeded]" in yard.run("why", str(ran))
