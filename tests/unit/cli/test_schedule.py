"""`ganger schedule`."""

import json

import pytest

from ganger.engine.engine import Engine
from ganger.engine.schedules import Scheduler
from ganger.runtime.clock import SystemClock
from ganger.testing.clock import FakeClock
from tests.unit.cli.console import Console

NIGHTLY = ("schedule", "add", "nightly", "--cron", "30 2 * * *", "--tz", "Europe/Berlin")


def test_a_schedule_is_kept_and_listed(console: Console) -> None:
    assert "the first tick is at" in console.err(*NIGHTLY, "--overlap", "--missed", "all", "--", "tar", "-c", "x")
    console.run("schedule", "add", "often", "--every", "5m", "--shell", "date > now")

    nightly, often = console.lines("schedule", "ls", "--json")
    assert (nightly["cron"], nightly["zone"], nightly["overlap"]) == ("30 2 * * *", "Europe/Berlin", True)
    assert (nightly["missed"], nightly["description"]) == ("all", "tar -c x")
    assert (often["every"], often["missed"], often["kind"]) == (300_000, "once", "shell")
    listed = console.out("schedule", "ls")
    assert "02:30:00  30 2 * * * Europe/Berlin" in listed
    assert "every 5m" in listed


def test_a_tick_makes_the_task_that_was_asked_for(console: Console) -> None:
    console.run("queue", "create", "video")
    console.run(
        "schedule", "add", "often", "--every", "1m", "--queue", "video", "--retries", 2, "--label", "gpu", "--", "ls"
    )

    async def tick(engine: Engine) -> int:
        later = FakeClock(wall=SystemClock().wall() + 90_000)
        return (await Scheduler(engine, later).step()).done

    assert console.act(tick) == 1
    (made,) = console.lines("ls", "--queue", "video", "--json")
    (planned,) = console.lines("schedule", "ls", "--json")
    assert (made["description"], made["requires"], planned["last_task"]) == ("ls", ["gpu"], made["id"])
    (shown,) = console.lines("show", made["id"], "--json")
    assert json.loads(shown["spec"])["argv"] == ["ls"]


def test_a_schedule_is_paused_resumed_and_removed(console: Console) -> None:
    console.run(*NIGHTLY, "--", "true")

    console.run("schedule", "pause", "nightly")
    assert "paused" in console.out("schedule", "ls")
    assert "is paused already" in console.err("schedule", "pause", "nightly", exits=4)
    console.run("schedule", "resume", "nightly")
    assert console.lines("schedule", "ls", "--json")[0]["paused"] is False
    assert "is not paused" in console.err("schedule", "resume", "nightly", exits=4)
    assert console.out("schedule", "rm", "nightly") == "nightly"
    assert "no schedules" in console.err("schedule", "ls")


def test_the_next_ticks_are_told_across_a_change_of_the_clock(console: Console) -> None:
    console.run(*NIGHTLY, "--", "true")
    expected = ["2027-03-27 02:30:00+01:00", "2027-03-28 03:00:00+02:00", "2027-03-29 02:30:00+02:00"]

    assert console.out("schedule", "next", "nightly", "--from", "2027-03-27", "-n", 3).splitlines() == expected


def test_a_dry_run_needs_no_store(console: Console) -> None:
    ticks = console.lines("schedule", "next", "--every", "5m", "--from", "2027-01-01 10:00", "-n", 2, "--json")

    assert [tick["local"] for tick in ticks] == ["2027-01-01 10:05:00+00:00", "2027-01-01 10:10:00+00:00"]
    first = console.out("schedule", "next", "--cron", "0 10 * * *", "--from", "2027-01-01 10:00", "-n", 1)
    assert first == "2027-01-01 10:00:00+00:00"
    assert not console.database.exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add", "x", "--", "true"), 2, "either a cron text or an interval"),
        (("add", "x", "--cron", "* * * * *", "--every", "1m", "--", "true"), 2, "either a cron text or an interval"),
        (("add", "x", "--cron", "61 * * * *", "--", "true"), 2, "is no cron text"),
        (("add", "x", "--cron", "@daily", "--tz", "Nowhere", "--", "true"), 2, "there is no time zone"),
        (("add", "x", "--every", "1ms", "--", "true"), 2, "[bad_number]"),
        (("add", "x", "--every", "1m"), 2, "either a command"),
        (("add", "x", "--every", "1m", "--queue", "id:77", "--", "true"), 3, "[queue_not_found]"),
        (("add", "nightly", "--every", "1m", "--", "true"), 4, "[duplicate_key]"),
        (("rm", "none"), 3, "there is no schedule"),
        (("pause", "none"), 3, "there is no schedule"),
        (("next",), 2, "give the name of a schedule"),
        (("next", "nightly", "--every", "1m"), 2, "give the name of a schedule"),
    ],
)
def test_what_is_wrong_is_refused(console: Console, words: tuple[str, ...], code: int, said: str) -> None:
    console.run(*NIGHTLY, "--", "true")

    assert said in console.err("schedule", *words, exits=code)
