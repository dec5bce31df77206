"""One key, one task: also when two ask for it at the same moment, and also if nobody had looked."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import DuplicateKey
from ganger.core.ids import QueueId
from ganger.engine.store import Configure, QueueChange, Submission, Submitted
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stores.owner import Owner, payload

PAIRS = 30


async def submit_pairs(path: Path, on_conflict: str) -> list[Submitted | BaseException]:
    """Everybody at the same moment, each key twice."""
    store = await SqliteStore.open(path, FakeClock(), SeededEntropy())
    try:
        made = await store.configure(Configure(queue=QueueChange(name="q")))
        assert made.queue is not None
        keyed = [submission(made.queue.id, pair // 2, on_conflict) for pair in range(2 * PAIRS)]
        return await asyncio.gather(*map(store.submit, keyed), return_exceptions=True)
    finally:
        await store.close()


def submission(queue: QueueId, key: int, on_conflict: str) -> Submission:
    return Submission((payload(queue, key=f"key {key}", on_conflict=on_conflict),))


def test_of_two_that_submit_a_key_at_the_same_moment_one_is_refused(tmp_path: Path) -> None:
    said = asyncio.run(submit_pairs(tmp_path / "tasks.db", "refuse"))

    assert [type(one) for one in said] == [Submitted, DuplicateKey] * PAIRS


def test_two_that_submit_a_key_at_the_same_moment_may_get_the_same_task(tmp_path: Path) -> None:
    said = asyncio.run(submit_pairs(tmp_path / "tasks.db", "return"))

    ids = [one.ids[0] for one in said if isinstance(one, Submitted)]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == PAIRS


def test_the_file_itself_keeps_no_two_tasks_of_one_key() -> None:
    owner = Owner()
    one, two = owner.submit(*[payload(owner.queue())] * 2)
    owner.connection.execute("UPDATE task SET key = 'k' WHERE id = ?", (one,))

    with pytest.raises(apsw.ConstraintError):
        owner.connection.execute("UPDATE task SET key = 'k' WHERE id = ?", (two,))
