"""The small parts by themselves."""

import asyncio
import selectors
import threading
from pathlib import Path

import apsw
import pytest

from ganger.core.clock import Moment, Wall
from ganger.core.errors import StoreBroken, StoreClosed, StoreUnavailable
from ganger.databases.sqlite import Session, prune_units
from ganger.databases.sqlite.inbox import Inbox
from ganger.databases.sqlite.outstanding import Outstanding
from ganger.databases.sqlite.unit import Blocked, ClientId, Identity, Outcome, Post, Unit
from ganger.testing.clock import FakeClock
from tests.unit.databases.counter import Line, first, opened

HOUR = 3_600_000


def unit(n: int = 0) -> Unit:
    return Unit("submit", n, Blocked())


def session() -> Session:
    return Session(apsw.Connection(":memory:"), Moment(0), Wall(0), None)


def test_an_inbox_gives_units_in_the_order_they_came_and_no_more_than_asked_for() -> None:
    inbox = Inbox()
    for n in range(5):
        inbox.post(unit(n))
    assert [each.request for each in inbox.take(3)] == [0, 1, 2]
    assert [each.request for each in inbox.take(3)] == [3, 4]
    inbox.dispose()


def test_an_inbox_that_is_closed_takes_nothing_and_keeps_what_it_has() -> None:
    inbox = Inbox()
    inbox.post(unit(1))
    inbox.close()
    inbox.close()
    with pytest.raises(StoreClosed):
        inbox.post(unit(2))
    assert [each.request for each in inbox.take(9)] == [1]
    inbox.dispose()


def test_nobody_sleeps_while_something_is_in_the_inbox() -> None:
    inbox = Inbox()
    taken: list[Unit] = []

    def serve() -> None:
        while len(taken) < 2_000:
            inbox.wait(60)
            taken.extend(inbox.take(10))

    server = threading.Thread(target=serve)
    server.start()
    posters = [threading.Thread(target=_post_many, args=(inbox, 500)) for _ in range(4)]
    for poster in posters:
        poster.start()
    for thread in (*posters, server):
        thread.join(60)
        assert not thread.is_alive()
    inbox.dispose()


def test_what_a_loop_posts_in_one_turn_is_taken_together() -> None:
    inbox = Inbox()
    taken: list[list[Unit]] = []
    ready = threading.Event()

    def serve() -> None:
        assert inbox.doze()
        ready.set()
        with selectors.DefaultSelector() as selector:
            selector.register(inbox.ear, selectors.EVENT_READ)
            assert selector.select(20)
        inbox.rouse()
        taken.append(inbox.take(9))

    async def post() -> None:
        for number in range(3):
            inbox.post(unit(number), asyncio.get_running_loop())

    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(60)
    asyncio.run(post())
    server.join(60)
    assert [[each.request for each in group] for group in taken] == [[0, 1, 2]]
    inbox.dispose()


def _post_many(inbox: Inbox, count: int) -> None:
    for _ in range(count):
        inbox.post(unit())


def test_an_identity_is_kept_until_the_answer_and_its_slot_is_used_again() -> None:
    outstanding = Outstanding(ClientId(b"me"), 2)
    first, second = (outstanding.add(unit(n), b"", Moment(n)) for n in range(2))
    assert outstanding.room == 0
    assert outstanding.settle(first.slot, second.seq) is None
    assert outstanding.settle(first.slot, first.seq) == first.unit
    assert outstanding.settle(first.slot, first.seq) is None
    third = outstanding.add(unit(3), b"", Moment(3))
    assert (third.slot, third.seq) == (first.slot, 3)
    assert [sent.seq for sent in outstanding.in_order()] == [2, 3]
    assert outstanding.oldest() == 1


def test_units_that_go_to_an_owner_in_this_process_keep_their_identities() -> None:
    outstanding = Outstanding(ClientId(b"me"), 2)
    sent = outstanding.add(unit(7), b"", Moment(0))
    (drained,) = outstanding.drain()
    assert drained.identity == Identity(ClientId(b"me"), sent.slot, sent.seq)
    assert drained.again
    assert len(outstanding) == 0


def test_units_sent_before_a_moment_are_given_up() -> None:
    outstanding = Outstanding(ClientId(b"me"), 4)
    for n in range(3):
        outstanding.add(unit(n), b"", Moment(n * 10))
    assert [each.request for each in outstanding.give_up(Moment(15))] == [0, 1]
    assert outstanding.room == 3


def test_a_thread_that_waits_too_long_is_told_that_nothing_is_known() -> None:
    blocked = Blocked()
    with pytest.raises(StoreUnavailable, match="may still be done"):
        blocked.wait(0.001)
    blocked.tell(Outcome(5), Post())
    assert blocked.wait(None) == 5


def test_a_session_takes_back_the_newest_first_and_only_since_the_mark() -> None:
    done: list[str] = []
    it = session()
    it.rolled_back(lambda: done.append("a"))
    it.wake("a")
    mark = it.mark()
    for name in ("b", "c"):
        it.rolled_back(lambda name=name: done.append(name))  # type: ignore[misc]
        it.wake(name)
    it.rewind(mark)
    assert (done, it.topics()) == (["c", "b"], ("a",))


def test_what_cannot_be_taken_back_breaks_the_file() -> None:
    it = session()
    it.rolled_back(threading.Lock().release)
    with pytest.raises(StoreBroken, match="could not be rolled back"):
        it.rewind(session().mark())


def test_a_flush_runs_once_for_each_key_also_if_a_flush_asks_for_another() -> None:
    done: list[str] = []
    it = session()

    def first(inner: Session) -> None:
        done.append("first")
        inner.before_commit("first", first)
        inner.before_commit("second", lambda _: done.append("second"))

    for _ in range(3):
        it.before_commit("first", first)
    it.flush()
    it.flush()
    assert done == ["first", "second"]


def test_receipts_are_pruned_when_both_clocks_say_that_they_are_old(tmp_path: Path) -> None:
    clock = FakeClock(now=10 * HOUR)

    async def scenario() -> list[int]:
        async with opened(tmp_path / "c.db", clock=clock) as owner, opened(tmp_path / "c.db", clock=clock) as client:
            await client.call("submit", Line("ada", 1))
            connection = apsw.Connection(str(tmp_path / "c.db"))
            pruned = []
            for now, wall in ((0, 2 * HOUR), (2 * HOUR, 0), (2 * HOUR, 2 * HOUR)):
                it = Session(connection, Moment(clock.now() + now), Wall(clock.wall() + wall), None)
                pruned.append(prune_units(it, it.wall - HOUR))
            connection.close()
            assert owner.owns
            return pruned

    assert asyncio.run(scenario()) == [0, 0, 1]


def test_receipts_of_another_boot_are_forgotten_because_no_process_outlives_one(tmp_path: Path) -> None:
    clock = FakeClock()

    async def scenario() -> int:
        async with opened(tmp_path / "c.db", clock=clock), opened(tmp_path / "c.db", clock=clock) as client:
            await client.call("submit", Line("ada", 1))
        clock.reboot()
        async with opened(tmp_path / "c.db", clock=clock) as owner:
            return await owner.read(lambda it: first(it, "SELECT count(*) FROM unit"))

    assert asyncio.run(scenario()) == 0
