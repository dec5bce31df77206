"""A unit that was run to its end and then taken back, as when the disk is full, leaves the books as they were."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ganger.core.errors import StoreFull
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import move
from ganger.core.task import Claimed
from ganger.databases.sqlite import Session
from ganger.engine.store import Claim, Edit, Edits, Exchange, Submission
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.exchanging import exchange
from ganger.engine.stores.sqlite.submitting import submit
from tests.unit.engine.stores.owner import Owner, payload

Ask = Callable[[QueueId, NodeId, Claimed], Any]
UNITS: dict[str, tuple[Any, Ask]] = {
    "submit": (submit, lambda queue, node, held: Submission((payload(queue),) * 3)),
    "claim": (exchange, lambda queue, node, held: Exchange(claim=Claim(node, (queue,), 2))),
    "settle": (exchange, lambda queue, node, held: Exchange((move(held.id, "succeed", held.fence),))),
    "cancel": (edit, lambda queue, node, held: Edits((Edit(TaskId(held.id + 1), kill=True),))),
}


def fail_after(operation: Any) -> Any:
    def run(session: Session, request: Any) -> None:
        operation(session, request)
        raise StoreFull("no room for the answer")

    return run


@pytest.mark.parametrize("name", UNITS)
def test_what_is_taken_back_is_not_counted(name: str) -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(*[payload(queue)] * 5)
    (held,) = owner.claim(node, queue)
    before = dict(owner.shelf.tally), dict(owner.shelf.counters)
    operation, ask = UNITS[name]

    with pytest.raises(StoreFull):
        owner.run(fail_after(operation), ask(queue, node, held))
    assert (+Counter(owner.shelf.tally), +Counter(owner.shelf.counters)) == tuple(+Counter(one) for one in before)

    owner.submit(payload(queue))
    stored = {status: n for status, n in owner.read("SELECT status, n FROM tally WHERE queue = ?", (queue,)) if n}
    assert stored == dict(Counter(status for (status,) in owner.read("SELECT status FROM task")))
