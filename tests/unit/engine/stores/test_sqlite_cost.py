"""What the SQLite store does costs as much among millions of tasks as among thousands: counted, not timed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from ganger.core.clock import Wall
from ganger.core.ids import Position, TaskId
from ganger.core.state import Status
from ganger.engine.store import Claim, Configure, NodeChange, Query
from ganger.engine.stores.sqlite import reading
from ganger.engine.stores.sqlite.finding import WALK, find
from ganger.engine.stores.sqlite.joining import configure
from tests.unit.engine.stores.crowd import DUE_NOW, Crowd, gather
from tests.unit.engine.stores.owner import Owner, payload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FEW, MANY = 1_000, 1_000_000
SLACK = 1.5


class Cost(NamedTuple):
    steps: int
    sorts: int


@contextmanager
def counted(connection: apsw.Connection) -> Iterator[list[Cost]]:
    """What each statement that ends inside has cost."""
    costs: list[Cost] = []

    def note(event: dict[str, Any]) -> None:
        status = event["stmt_status"]
        sorts = status["SQLITE_STMTSTATUS_SORT"] + status["SQLITE_STMTSTATUS_AUTOINDEX"]
        costs.append(Cost(status["SQLITE_STMTSTATUS_VM_STEP"], sorts))

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    try:
        yield costs
    finally:
        connection.trace_v2(0, None)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    yield from _gathered(tmp_path_factory.mktemp("few") / "tasks.db", FEW)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    yield from _gathered(tmp_path_factory.mktemp("many") / "tasks.db", MANY)


def _gathered(path: Path, size: int) -> Iterator[Crowd]:
    crowd = gather(path, size)
    yield crowd
    crowd.owner.connection.close()
    path.unlink()


def claim(crowd: Crowd, *queues: int, most: int = 10) -> int:
    return len(crowd.owner.exchange(claim=Claim(crowd.taker, queues, most)).claimed)  # type: ignore[arg-type]


def claim_as_rival(crowd: Crowd) -> int:
    return len(crowd.owner.claim(crowd.rival, crowd.shunned, most=10))


def settle_of_a_full_key(crowd: Crowd) -> int:
    return len(crowd.owner.settle("succeed", crowd.filling).refused)


def claim_of_a_key(crowd: Crowd) -> int:
    return sum(one.priority == 1 for one in crowd.owner.claim(crowd.taker, crowd.keyed))


def submit_to_a_full_key(crowd: Crowd) -> int:
    return len(crowd.owner.submit(payload(crowd.keyed, limit_key="k", priority=0)))


def beat(crowd: Crowd) -> int:
    change = NodeChange(id=crowd.holder, token="holder", beat=True)
    return len(crowd.owner.run(configure, Configure(node=change)).kills)


def lapse(crowd: Crowd) -> int:
    return len(crowd.owner.tend(lapse=True, most=50).lapsed)


def prune(crowd: Crowd) -> int:
    return crowd.owner.tend(prune_before=Wall(1_000_000), most=50).done


def restart(crowd: Crowd) -> int:
    return len(Owner(crowd.owner.connection, crowd.owner.clock).shelf.queues)


def count(crowd: Crowd) -> int:
    return len(reading.counts(crowd.owner.connection)[0])


OPERATIONS: dict[str, tuple[Callable[[Crowd], int], int]] = {
    "claim": (lambda crowd: claim(crowd, crowd.plain), 10),
    "claim, the newest first": (lambda crowd: claim(crowd, crowd.lifo), 10),
    "claim behind a full key": (lambda crowd: claim(crowd, crowd.keyed), 10),
    "claim behind tasks that avoid the holder": (lambda crowd: claim(crowd, crowd.shunned), 10),
    "claim of tasks that avoid another": (claim_as_rival, 10),
    "claim of several queues": (lambda crowd: claim(crowd, *crowd.queues, most=30), 30),
    "settle the one task of a full key": (settle_of_a_full_key, 0),
    "claim the next task of a key": (claim_of_a_key, 1),
    "submit to a full key": (submit_to_a_full_key, 1),
    "submit": (lambda crowd: len(crowd.owner.submit(*[payload(crowd.plain)] * 10)), 10),
    "beat of a node with many leases": (beat, 5),
    "promote": (lambda crowd: crowd.owner.tend(promote=True, most=5).done, 5),
    "promote and claim": (lambda crowd: claim(crowd, crowd.late, most=DUE_NOW - 10), DUE_NOW - 10),
    "lapse": (lapse, 50),
    "prune members of a group": (prune, 50),
    "restart": (restart, 6),
    "count": (count, 6),
    "look": (lambda crowd: len(reading.look(crowd.owner.connection, TaskId(crowd.parent), 10).family.children), 10),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_costs_no_more_among_a_million_tasks(few: Crowd, many: Crowd, name: str) -> None:
    operate, expected = OPERATIONS[name]

    compare(operate, few, many, expected)


def compare(operate: Callable[[Crowd], int], few: Crowd, many: Crowd, expected: int) -> None:
    costs = []
    for crowd in (few, many):
        with counted(crowd.owner.connection) as spent:
            assert operate(crowd) == expected
        costs.append(sum(cost.steps for cost in spent))
        assert not sum(cost.sorts for cost in spent)

    assert costs[1] <= SLACK * costs[0]


QUERIES: dict[str, Callable[[Crowd], Query]] = {
    "everything": lambda crowd: Query(),
    "a queue": lambda crowd: Query(queue=crowd.shunned),
    "a group": lambda crowd: Query(group=TaskId(crowd.group)),
    "a batch": lambda crowd: Query(batch=1),
    "a holder": lambda crowd: Query(holder=crowd.taker),
    "children": lambda crowd: Query(parent=TaskId(crowd.parent)),
    "an unusual status": lambda crowd: Query(statuses=(Status.FAILED,)),
    "two unusual statuses": lambda crowd: Query(statuses=(Status.FAILED, Status.DELAYED)),
    "a key": lambda crowd: Query(key="key-70"),
}


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_a_page_costs_no_more_among_a_million_tasks(few: Crowd, many: Crowd, name: str, newest_first: bool) -> None:
    def page(crowd: Crowd) -> int:
        query = QUERIES[name](crowd)._replace(newest_first=newest_first, most=20)
        return len(find(crowd.owner.connection, query).tasks)

    compare(page, few, many, page(few))


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_walk_for_a_usual_status_is_bounded(many: Crowd, newest_first: bool) -> None:
    """No index leads to what runs in a queue of a million that wait: the page is empty, and says where to go on."""
    query = Query(queue=many.shunned, statuses=(Status.RUNNING,), newest_first=newest_first)
    with counted(many.owner.connection) as spent:
        page = find(many.owner.connection, query)

    assert page.tasks == []
    assert page.next is not None
    assert sum(cost.steps for cost in spent) < 40 * WALK
    after = find(many.owner.connection, query._replace(after=Position(page.next)))
    assert after.next is not None
    assert (after.next < page.next) is newest_first
