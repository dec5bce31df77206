"""Programs that know the Disbatch protocol and nothing of Ganger, first among themselves."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.foreign.yard import Yard


@pytest.fixture
def yard(mongo_url: Callable[[], str], tmp_path: Path) -> Iterator[Yard]:
    made = Yard(mongo_url(), tmp_path)
    yield made
    made.close()


def test_strangers_run_each_task_once_and_keep_the_counts(yard: Yard) -> None:
    yard.command("queue", "demo", 4)
    yard.command("tasks", "demo", 100)
    dens = [yard.start_den(name) for name in ("one", "two")]
    yard.until(lambda: yard.count(status=1) == 100)
    for den in dens:
        yard.stop(den)

    assert set(yard.count_runs().values()) == {1}
    assert len(yard.count_runs()) == 100
    queue = yard.base.queues.find_one({"name": "demo"})
    assert (queue["count_todo"], queue["count_total"]) == (0, 100)


def test_a_stranger_that_was_killed_orphans_its_tasks_when_it_comes_back(yard: Yard) -> None:
    yard.command("queue", "demo", 3)
    yard.command("tasks", "demo", 5, 600)
    den = yard.start_den("one")
    yard.until(lambda: yard.count(status=0) == 3)
    yard.stop(den, signal.SIGKILL)
    yard.start_den("one")
    yard.until(lambda: yard.count(status=-6) == 3)

    assert yard.count(status=-6, node="one") == 3
    assert set(yard.count_runs().values()) == {1}
