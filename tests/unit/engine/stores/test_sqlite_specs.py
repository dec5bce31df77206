"""Where a spec lies, and what of it travels."""

import pytest

from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import move
from ganger.engine.store import CLAIMED_SPEC, INLINE_SPEC, Change, Datum, Edit, Edits, Note, Query
from ganger.engine.stores.sqlite import reading
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.finding import find
from ganger.engine.stores.sqlite.noting import write
from tests.unit.engine.stores.owner import Owner, payload

SIZES = [0, 1, INLINE_SPEC, INLINE_SPEC + 1, CLAIMED_SPEC, CLAIMED_SPEC + 1, 1 << 20]


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def queue(owner: Owner) -> QueueId:
    return owner.queue()


@pytest.fixture
def node(owner: Owner) -> NodeId:
    return owner.node()


def spec(size: int) -> bytes:
    return bytes(index % 251 for index in range(size))


def read(owner: Owner, task: int, start: int = 0, most: int = 1 << 21) -> bytes | None:
    return reading.value(owner.connection, reading.Part(TaskId(task), "spec", start, most, None)).body


def lies_in_the_row(owner: Owner, task: int) -> bool:
    return bool(owner.read("SELECT spec IS NOT NULL FROM task WHERE id = ?", (task,))[0][0])


@pytest.mark.parametrize("size", SIZES)
def test_a_spec_is_read_as_it_was_submitted(owner: Owner, queue: QueueId, size: int) -> None:
    (task,) = owner.submit(payload(queue, spec(size)))

    assert lies_in_the_row(owner, task) is (size <= INLINE_SPEC)
    assert read(owner, task) == spec(size)
    assert read(owner, task, 100, 50) == spec(size)[100:150]


@pytest.mark.parametrize("size", SIZES)
def test_a_spec_travels_with_a_claim_unless_it_is_large(owner: Owner, queue: QueueId, node: NodeId, size: int) -> None:
    owner.submit(payload(queue, spec(size)))

    assert owner.claim(node, queue)[0].spec == (spec(size) if size <= CLAIMED_SPEC else None)


def test_every_reader_knows_the_size_of_a_spec(owner: Owner, queue: QueueId) -> None:
    ids = owner.submit(*(payload(queue, spec(size)) for size in SIZES))

    seen = [task.spec_size for task in reading.tasks(owner.connection, ids) if task is not None]
    found = [task.spec_size for task in find(owner.connection, Query(queue=queue)).tasks]
    looked = [reading.look(owner.connection, task, 10).task.spec_size for task in ids]

    assert seen == found == looked == SIZES


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("before", [1, INLINE_SPEC + 1])
def test_a_changed_spec_lies_where_its_size_says(owner: Owner, queue: QueueId, before: int, size: int) -> None:
    (task,) = owner.submit(payload(queue, spec(before)))
    owner.run(edit, Edits((Edit(task, change=Change(spec=spec(size))),)))

    assert lies_in_the_row(owner, task) is (size <= INLINE_SPEC)
    assert read(owner, task) == spec(size)
    assert len(owner.read("SELECT 1 FROM data")) == (size > INLINE_SPEC)


@pytest.mark.parametrize("size", SIZES)
def test_a_result_becomes_the_spec_of_a_new_task(owner: Owner, node: NodeId, size: int) -> None:
    target = owner.queue("next")
    source = owner.queue("source", becomes=target)
    owner.submit(payload(source, priority=7, description="why"))
    (one,) = owner.claim(node, source)
    owner.exchange(move(one.id, "succeed", one.fence)._replace(result=spec(size)))

    (made,) = owner.claim(node, target)
    assert made.spec == (spec(size) if size <= CLAIMED_SPEC else None)
    assert read(owner, made.id) == spec(size)
    assert made.priority == 7
    assert reading.look(owner.connection, made.id, 1).task.description == "why"


def test_a_result_that_is_a_blob_becomes_a_spec_that_is_that_blob(owner: Owner, node: NodeId) -> None:
    target = owner.queue("next")
    source = owner.queue("source", becomes=target)
    owner.submit(payload(source, b"old"))
    (one,) = owner.claim(node, source)
    owner.run(write, (Note(one.id, one.fence, datum=Datum("result", blob="hash", size=99)),))
    owner.settle("succeed", one)

    (made,) = owner.claim(node, target)
    value = reading.value(owner.connection, reading.Part(made.id, "spec", 0, 10, None))
    assert made.spec is None
    assert (value.blob, value.size, value.body) == ("hash", 99, None)
    assert reading.look(owner.connection, made.id, 1).task.spec_size == 99
    assert owner.tend(blobs=("hash", "other")).blobs == ("other",)
