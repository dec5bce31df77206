"""Schedules that an app declares, written to the store and ticking inline."""

import asyncio
from collections.abc import Iterator

import pytest

from ganger import Ganger
from ganger.client import Synced
from ganger.core.errors import BadInput, BadName
from ganger.core.schedule import Schedule
from ganger.testing.inline import Inline, assert_enqueued, assert_scheduled, inline
from tests.unit.client.clockwork import app, report, tidy

MINUTE = 60_000
NAMES = ("tests.unit.client.clockwork:report", "tidying", "backup")


@pytest.fixture
def stage() -> Iterator[Inline]:
    with inline(app) as stage:
        yield stage


def test_a_decorated_function_stays_what_it_was() -> None:
    assert report("long") == "long"
    assert asyncio.run(tidy()) == 1
    assert [plan.schedule.name for plan in app.schedules] == list(NAMES)
    assert next(iter(app.schedules)).schedule == Schedule(NAMES[0], cron="*/5 * * * *", zone="Europe/Berlin")


def test_declaring_stores_nothing_and_syncing_stores_it_once(stage: Inline) -> None:
    assert stage.drafts == []
    assert app.sync_schedules() == Synced(added=NAMES)
    assert app.sync_schedules() == Synced(same=NAMES)
    assert asyncio.run(app.async_sync_schedules()) == Synced(same=NAMES)


def test_ticks_call_the_functions(stage: Inline) -> None:
    app.sync_schedules()
    with pytest.raises(AssertionError, match="no call"):
        assert_enqueued(app, report)

    stage.clock.advance(5 * MINUTE)
    stage.work()

    assert_enqueued(app, report, "short")
    (tick,) = stage.drafts
    assert (tick.queue, tick.task.kind) == ("reports", "function")
    stage.clock.advance(10 * MINUTE)
    stage.work()
    assert_enqueued(app, tidy)
    # Without overlap there is a second tick only because the first one has ended.
    assert [draft.queue for draft in stage.drafts].count("reports") == 2


def test_what_is_declared_can_be_asserted() -> None:
    assert_scheduled(app, report)
    assert_scheduled(app, report, cron="*/5 * * * *")
    assert_scheduled(app, tidy, every="15m")
    with pytest.raises(AssertionError, match="not at"):
        assert_scheduled(app, report, cron="* * * * *")
    with pytest.raises(AssertionError, match="no schedule calls"):
        assert_scheduled(Ganger("memory:"), report)


def test_a_schedule_that_makes_no_sense_is_refused_where_it_is_declared() -> None:
    other = Ganger("memory:")
    for bad in ("every day", "61 * * * *", "0 0 31 2 *"):
        with pytest.raises(BadInput, match="cron"):
            other.cron(bad)(_job)
    with pytest.raises(BadInput, match="zone"):
        other.cron("@daily", tz="Mars/Olympus")(_job)
    with pytest.raises(BadInput, match="every"):
        other.every(0.01)(_job)
    with pytest.raises(BadInput, match="missed"):
        other.cron("@daily", missed="never")(_job)
    with pytest.raises(BadName):
        other.cron("@daily", name="two\nlines")(_job)
    with pytest.raises(BadName):
        Ganger("memory:", name="")
    with pytest.raises(TypeError, match="colour"):
        other.cron("@daily", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        other.schedule("x", other.task(_job).bind(), cron="@daily", colour="red")  # type: ignore[call-arg]
    assert len(other.schedules) == 0


def test_a_tick_has_its_own_key_and_time_and_an_app_one_schedule_of_a_name() -> None:
    other = Ganger("memory:")
    with pytest.raises(BadInput, match="own key"):
        other.cron("@daily", key="once")(_job)
    with pytest.raises(BadInput, match="own key"):
        other.every("1m", delay=5)(_job)
    other.cron("@daily")(_job)
    other.cron("@daily")(_job)
    with pytest.raises(BadInput, match="name="):
        other.cron("@hourly")(_job)
    other.cron("@hourly", name="hourly")(_job)
    assert len(other.schedules) == 2


@pytest.mark.usefixtures("stage")
def test_one_that_is_declared_no_more_is_told_and_removed_only_when_asked_for() -> None:
    app.sync_schedules()
    shrunk = Ganger("memory:", name="clockwork")
    shrunk.bridge = app.bridge
    shrunk.every(15 * 60, name="tidying", overlap=True)(tidy)

    assert shrunk.sync_schedules() == Synced(same=("tidying",), gone=(NAMES[0], "backup"))
    assert shrunk.sync_schedules(remove=True) == Synced(same=("tidying",), removed=(NAMES[0], "backup"))
    assert shrunk.sync_schedules() == Synced(same=("tidying",))


def _job() -> None: ...
