"""The statements of the SQLite store: each prepares, each is used, and none walks over a table that grows."""

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

from ganger.engine.stores import sqlite
from ganger.engine.stores.sqlite.finding import STATEMENTS, statement
from ganger.engine.stores.sqlite.queries import Q
from tests.unit.engine.stores.owner import connect

PACKAGE = Path(sqlite.__file__).parent
GROWING = {"task", "edge", "attempt", "data", "output", "event", "audit", "t", "grp"}
FIRST_ROWS = {"audit_last", "events_oldest", "output_oldest"}
"""They read a growing table from one end and stop at their LIMIT."""

KEY = "INTEGER PRIMARY KEY"
EXPECTED = {
    "ready_head": ["task USING INDEX task_ready (queue=? AND lane=?)"],
    "ready_named": [f"task USING {KEY} (rowid=?)"],
    "ready_lanes": ["task USING COVERING INDEX task_ready (queue=?)", "t USING COVERING INDEX task_ready (queue=? AND"],
    "claim_take_few": [f"task USING {KEY} (rowid=?)"],
    "claim_take_many": [f"task USING {KEY} (rowid=?)"],
    "leased_by_nodes": ["task USING COVERING INDEX task_leased (holder=?)"],
    "leased_by_node_queue": ["task USING COVERING INDEX task_leased (holder=? AND queue=?)"],
    "keyed_ready": ["task USING INDEX task_keyed_ready (queue=? AND limit_key=?)"],
    "keyed_parked": ["task USING INDEX task_keyed_parked (queue=? AND limit_key=?)"],
    "keyed_parked_all": ["task USING INDEX task_keyed_parked (queue=? AND limit_key=?)"],
    "keyed_leased": ["task USING INDEX task_keyed_leased (queue=? AND limit_key=?)"],
    "promote_queue": [f"task USING {KEY} (rowid=?)", "task USING COVERING INDEX task_due (queue=? AND due<?)"],
    "next_due": ["task USING COVERING INDEX task_due (queue=?)"],
    "lapsed_of_node": ["task USING INDEX task_leased (holder=?)"],
    "lapsed_touched": ["task USING INDEX task_until (until>? AND until<?)"],
    "next_until": ["task USING COVERING INDEX task_until (until>?)"],
    "node_kills": ["task USING INDEX task_kill (kill=?)"],
    "members_ended": ["task USING INDEX task_group (grp=?)"],
    "member_ended": [f"task USING {KEY} (rowid=?)"],
    "members_add": [f"task USING {KEY} (rowid=?)"],
    "prune_read": [f"task USING {KEY} (rowid=?)", f"grp USING {KEY} (rowid=?) LEFT-JOIN"],
    "lane_empty": ["task USING COVERING INDEX task_avoiding (lane=?)"],
    "key_holder": ["task USING COVERING INDEX task_key (key=?)"],
    "edges_from": ["edge USING PRIMARY KEY (parent=? AND child>?)"],
    "edges_to": ["edge USING INDEX edge_child (child=?)"],
    "moves_read": [f"task USING {KEY} (rowid=?)"],
    "attempts_end": [f"task USING {KEY} (rowid=?)"],
    "moves_apply": [f"task USING {KEY} (rowid=?)"],
}
FOUND = {
    "by_id": f"task USING {KEY} (rowid>? AND rowid<?)",
    "by_queue": "task USING INDEX task_queue (queue=? AND rowid>? AND rowid<?)",
    "by_status": "task USING INDEX task_unusual (status=? AND rowid>?)",
    "by_key": "task USING INDEX task_key (key=? AND rowid>?)",
    "by_holder": "task USING INDEX task_leased (holder=?)",
    "by_group": "task USING INDEX task_group (grp=? AND rowid>?)",
    "by_batch": "task USING INDEX task_batch (batch=? AND rowid>?)",
    "by_parent": "edge USING PRIMARY KEY (parent=? AND child>?)",
    "walk_id": f"task USING {KEY} (rowid>?)",
    "walk_queue": "task USING COVERING INDEX task_queue (queue=? AND rowid>?)",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[apsw.Connection]:
    opened = connect()
    yield opened
    opened.close()


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    """The lines of the query plan, without what the planner says about carrays and lists of JSON."""
    details = apsw.ext.query_info(connection, sql, explain_query_plan=True).query_plan
    return [] if details is None else list(_lines(details))


def _lines(part: apsw.ext.QueryPlan) -> Iterator[str]:
    for step in part.sub or ():
        yield step.detail
        yield from _lines(step)


def searches(lines: list[str]) -> list[str]:
    return [line.removeprefix("SEARCH ") for line in lines if line.startswith("SEARCH ")]


def scans(lines: list[str]) -> set[str]:
    return {line.split()[1] for line in lines if line.startswith("SCAN ")}


def texts() -> dict[str, str]:
    """Every statement, and those of `find` turned round."""
    return {name: getattr(Q, name) for name in Q.names()} | {
        f"find_{driver}, newest first": statement(driver, newest_first=True) for driver in STATEMENTS
    }


@pytest.mark.parametrize("name", texts())
def test_a_statement_prepares_against_the_schema(connection: apsw.Connection, name: str) -> None:
    info = apsw.ext.query_info(connection, texts()[name], explain=True)

    assert info.explain
    assert not info.query_remaining


@pytest.mark.parametrize("name", texts())
def test_a_statement_walks_over_no_table_that_grows(connection: apsw.Connection, name: str) -> None:
    scanned = scans(plan(connection, texts()[name])) & GROWING

    assert not scanned or (name in FIRST_ROWS and re.search(r"ORDER BY [\w.]+( DESC)? LIMIT", texts()[name]))


@pytest.mark.parametrize("name", sorted(texts().keys() - {"look_streams"}))
def test_a_statement_sorts_nothing_by_itself(connection: apsw.Connection, name: str) -> None:
    assert not [line for line in plan(connection, texts()[name]) if "TEMP B-TREE" in line or "AUTOMATIC" in line]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_statement_uses_the_index_that_was_made_for_it(connection: apsw.Connection, name: str) -> None:
    found = [line for line in searches(plan(connection, getattr(Q, name))) if line.split()[0] in GROWING]

    assert len(found) == len(EXPECTED[name])
    assert all(line.startswith(expected) for line, expected in zip(found, EXPECTED[name], strict=True)), found


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("driver", STATEMENTS)
def test_a_search_follows_its_index_both_ways(connection: apsw.Connection, driver: str, newest_first: bool) -> None:
    expected = FOUND[driver]
    if newest_first and " AND rowid<?" not in expected:
        expected = expected.replace(">?", "<?")

    assert searches(plan(connection, statement(driver, newest_first)))[0] == expected


@pytest.mark.parametrize("driver", STATEMENTS)
def test_a_search_is_turned_round_as_a_whole(driver: str) -> None:
    ahead, back = statement(driver, newest_first=False), statement(driver, newest_first=True)

    assert ahead.count("> :after") == back.count("< :after") == 1
    assert ahead.count("<= :last") == back.count(">= :last")
    assert ahead.count(" ASC") == back.count(" DESC")
    assert not re.search(r"> :after|<= :last| ASC", back)


def test_every_statement_that_the_store_asks_for_exists() -> None:
    assert _used() <= set(Q.names())


def test_every_statement_is_used() -> None:
    assert set(Q.names()) <= _used()


def _used() -> set[str]:
    sources = [path.read_text() for path in PACKAGE.glob("*.py")]
    return {name for text in sources for name in re.findall(r"\bQ\.(\w+)", text)}


def test_every_index_serves_a_statement(connection: apsw.Connection) -> None:
    made = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql > ''")}
    served = "\n".join(line for text in texts().values() for line in plan(connection, text))

    assert not {name for name in made if not re.search(rf"INDEX {name}\b", served)}
