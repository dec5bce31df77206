"""`ganger doctor`, `backup` and `restore` where a PostgreSQL server has the tasks."""

from collections.abc import Callable
from typing import Any

import pytest

from ganger.cli.doctor_postgres import judge
from ganger.databases.postgres.examining import Examined, Oldest, Table
from tests.unit.cli.console import Console

WELL = Examined("15.4", 7, True, True, 12, 1, 3, (Table("task", 500, 400, 1 << 20),), Oldest(7, "psql", 20))
SICK: dict[str, dict[str, Any]] = {
    "fsync": {"fsync": False},
    "clocks": {"ahead": -9_000},
    "notifications": {"heard": None},
    "vacuum": {"autovacuum": False},
    "bloat": {"tables": (Table("task", 500, 3_000_000, 1 << 30),)},
}


def test_a_server_that_is_well_is_told_to_be() -> None:
    assert all(finding.well for finding in judge(WELL))


@pytest.mark.parametrize("what", SICK)
def test_what_is_wrong_with_a_server_is_named_alone(what: str) -> None:
    assert [finding.what for finding in judge(WELL._replace(**SICK[what])) if not finding.well] == [what]


def test_a_transaction_that_nobody_ends_is_named_with_its_process() -> None:
    (found,) = [one for one in judge(WELL._replace(oldest=Oldest(4711, "report", 7_200))) if not one.well]

    assert "process 4711 (report)" in found.seen
    assert "2h" in found.seen


@pytest.mark.slow
def test_the_doctor_looks_at_schema_clocks_notifications_and_dead_rows(
    console: Console, postgres_url: Callable[[], str]
) -> None:
    url = postgres_url()
    console.run("submit", "--store", url, "--", "true")

    seen = {line["what"]: line for line in console.lines("doctor", "--store", url, "--json", exits=6)}

    assert {"schema", "clocks", "notifications", "vacuum", "bloat", "audit"} <= set(seen)
    assert [what for what, line in seen.items() if not line["well"]] == ["fsync"], "the tests' server has none"
    assert "heard after" in seen["notifications"]["seen"]


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_copy_of_a_server_is_refused_with_what_to_do_instead(console: Console, command: str) -> None:
    said = console.err(command, "--store", "postgresql://me@db.example/shop?schema=work", "copy.db", exits=2)

    assert "pg_dump --format=custom --schema=work" in said
    assert "in memory" not in said
    assert "mongodump" in console.err(command, "--store", "mongodb://db.example/shop", "copy.db", exits=2)
