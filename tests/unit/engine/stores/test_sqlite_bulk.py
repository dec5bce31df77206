"""Many rows at once are the same rows as one by one."""

from typing import Any

import pytest

from ganger.core.ids import QueueId
from ganger.core.queue import Sort
from ganger.core.task import NewTask
from ganger.engine.store import INLINE_SPEC
from tests.unit.engine.stores.owner import Owner, payload

SPECS = (b"", b"\0", b"\xff\xfe", '"Ä"'.encode(), b"x" * INLINE_SPEC, b"y" * (INLINE_SPEC + 1))
MANY = 100


def varied(queue: QueueId) -> list[NewTask]:
    """Runs of those alike, short and long ones, with others between them."""
    alike = [payload(queue, bytes([number % 251])) for number in range(MANY)]
    mixed = [payload(queue, spec, priority=number % 2) for number, spec in enumerate(SPECS * 3)]
    late = [payload(queue, b"late", delay=5), NewTask(queue, "command", b"{}"), payload(queue, b"k", limit_key="k")]
    return [*alike, *mixed, *late, *alike[:2], *(payload(queue, spec) for spec in SPECS * 4)]


def rows(owner: Owner) -> list[Any]:
    return owner.read("SELECT * FROM task ORDER BY id")


@pytest.mark.parametrize("sort", [Sort.FIFO, Sort.LIFO])
def test_tasks_submitted_together_are_stored_as_those_submitted_one_by_one(sort: Sort) -> None:
    together, apart = Owner(), Owner()
    together.submit(*varied(together.queue(sort=sort)))
    queue = apart.queue(sort=sort)
    for task in varied(queue):
        apart.submit(task)

    assert rows(together) == rows(apart)


@pytest.mark.parametrize("sort", [Sort.FIFO, Sort.LIFO])
def test_tasks_claimed_and_settled_together_are_those_claimed_and_settled_one_by_one(sort: Sort) -> None:
    together, apart = Owner(), Owner()
    for owner in (together, apart):
        queue, node = owner.queue(sort=sort), owner.node()
        owner.submit(*varied(queue))
    some = together.claim(node, queue, most=MANY)
    singly = [one for _ in range(MANY) for one in apart.claim(node, queue)]
    assert some == singly

    together.settle("succeed", *some)
    for one in singly:
        apart.settle("succeed", one)
    assert rows(together) == rows(apart)


def test_a_long_run_is_stored_in_parts() -> None:
    owner = Owner()
    queue = owner.queue()
    ids = owner.submit(*(payload(queue, b"%d" % number) for number in range(20_001)))

    assert owner.read("SELECT id, rank, CAST(spec AS TEXT) FROM task ORDER BY id") == [
        (number, number, str(index)) for index, number in enumerate(ids)
    ]
