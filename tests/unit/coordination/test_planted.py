"""Tests are worth what they catch: bugs are planted in the rules of locks, one at a time, and the named test must
fail."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from ganger.coordination import hold, lease, lock, membership, partitions
from ganger.coordination.backend import Document, Version
from ganger.coordination.hold import Grant, Hold
from ganger.coordination.lease import Sights, Terms
from ganger.coordination.lock import Lock
from ganger.coordination.membership import Members
from ganger.coordination.partitions import Partitions
from ganger.core.clock import Moment
from ganger.core.errors import StoreError
from tests.unit.coordination import test_cluster, test_lease, test_lock

Patch = pytest.MonkeyPatch


def believe_the_wall_clock_alone(patch: Patch) -> None:
    def find_wait(name: str, reading: Any, terms: Terms, sights: Sights, now: Moment) -> int:
        found = lease.read_lease(name, reading.document)
        return 0 if not found.expire else max(0, found.expire + terms.margin + 1 - reading.at)

    patch.setattr(lock, "find_wait", find_wait)
    patch.setattr(test_lease, "find_wait", find_wait)


def ignore_the_stores_clock(patch: Patch) -> None:
    def find_wait(name: str, reading: Any, terms: Terms, sights: Sights, now: Moment) -> int:
        found = lease.read_lease(name, reading.document)
        if reading.version is None or not found.expire:
            return 0
        return max(0, terms.ttl - (now - sights.see(name, reading.version, found, reading.at, now).since))

    patch.setattr(test_lease, "find_wait", find_wait)


def take_a_renewal_for_the_same_sight(patch: Patch) -> None:
    see = Sights.see

    def keep_the_first(self: Sights, name: str, version: Version, *rest: Any) -> Any:
        return see(self, name, Version(0, 0), *rest)

    patch.setattr(Sights, "see", keep_the_first)


def trust_for_longer_than_others_wait(patch: Patch) -> None:
    deadline = property(lambda self: Moment(self._grant.sent + 2 * self._terms.ttl))
    patch.setattr(Hold, "deadline", deadline)


def trust_what_was_not_answered(patch: Patch) -> None:
    async def recover(self: Hold, *, certain: bool) -> bool:
        self._grant = Grant(self._grant.version, self._clock.now(), self._grant.at)
        return True

    patch.setattr(Hold, "_recover", recover)


def never_renew(patch: Patch) -> None:
    async def stay(self: Hold) -> bool:
        return True

    patch.setattr(Hold, "_renew", stay)


def raise_the_epoch_with_each_renewal(patch: Patch) -> None:
    renew = Hold._renew

    async def renew_both(self: Hold) -> bool:
        done = await renew(self)
        self.epoch = self._grant.version
        return done

    patch.setattr(Hold, "_renew", renew_both)


def give_up_when_an_answer_is_lost(patch: Patch) -> None:
    async def recover(self: Hold, *, certain: bool) -> bool:
        self._end(hold.Ended.TAKEN)
        return False

    patch.setattr(Hold, "_recover", recover)


def believe_an_acquisition_without_an_answer(patch: Patch) -> None:
    async def believe(self: Lock, token: str, sent: Moment, error: StoreError) -> tuple[Document, Grant]:
        found = await self._room.backend.read(self.name)
        assert found.version is not None
        return {"holder": token, "expire": found.at}, Grant(found.version, sent, found.at)

    patch.setattr(Lock, "_find_own", believe)


def forget_to_release(patch: Patch) -> None:
    async def forget(self: Hold, document: Document) -> bool:
        return True

    patch.setattr(Hold, "_write_last", forget)


def never_cancel_a_block(patch: Patch) -> None:
    async def wait(self: lock.Guard, ended: Any) -> None:
        await ended

    patch.setattr(lock.Guard, "_strike", wait)


def remove_members_at_first_sight(patch: Patch) -> None:
    patch.setattr(Members, "_is_sure", lambda self, id, mark: True)
    patch.setattr(membership, "_judge_holders", _judge_all_late)


def _judge_all_late(listing: Any) -> dict[str, Any]:
    holders = {entry.fields.get("holder", "") for entry in listing.entries}
    return {holder: membership._Sign(True, ()) for holder in holders}


def take_what_is_done(patch: Patch) -> None:
    patch.setattr(partitions, "read_state", lambda name, document: partitions.State.OUTSTANDING)


def finish_what_was_lost(patch: Patch) -> None:
    async def finish(self: Hold, document: Document) -> bool:
        return True

    patch.setattr(Hold, "finish", finish)


def begin_everywhere_at_the_first(patch: Patch) -> None:
    take = Partitions.take

    async def take_first(self: Partitions, token: str, spare: int, position: int, members: int) -> list[Any]:
        return await take(self, token, spare, 0, members)

    patch.setattr(Partitions, "take", take_first)


PLANTED: Final = (
    (believe_the_wall_clock_alone, test_lock.test_no_jump_of_the_wall_clock_takes_a_lock),
    (believe_the_wall_clock_alone, test_lease.test_a_clock_that_jumps_forward_takes_nothing),
    (ignore_the_stores_clock, test_lease.test_a_lock_is_not_taken_before_it_has_expired_by_the_stores_clock),
    (take_a_renewal_for_the_same_sight, test_lease.test_each_renewal_begins_the_wait_anew),
    (trust_for_longer_than_others_wait, test_lock.test_a_holder_that_is_cut_off_stops_before_another_begins),
    (trust_what_was_not_answered, test_lock.test_a_holder_that_is_cut_off_stops_before_another_begins),
    (never_renew, test_lock.test_a_lock_that_is_renewed_stays_for_hours_and_keeps_its_epoch),
    (raise_the_epoch_with_each_renewal, test_lock.test_a_lock_that_is_renewed_stays_for_hours_and_keeps_its_epoch),
    (give_up_when_an_answer_is_lost, test_lock.test_a_renewal_whose_answer_is_lost_is_found_again),
    (
        believe_an_acquisition_without_an_answer,
        test_lock.test_an_acquisition_whose_answer_is_lost_is_found_again_or_not_believed,
    ),
    (forget_to_release, test_lock.test_a_waiter_is_woken_by_the_release),
    (never_cancel_a_block, test_lock.test_a_block_under_a_lock_is_cancelled_when_the_lock_is_lost),
    (never_cancel_a_block, test_cluster.test_a_duty_stops_before_the_lease_ends_and_another_leads_within_two_ttls),
    (remove_members_at_first_sight, test_cluster.test_the_leader_removes_those_that_timed_out_and_nobody_else),
    (take_what_is_done, test_cluster.test_a_partition_is_made_held_done_and_removed),
    (finish_what_was_lost, test_cluster.test_a_partition_that_is_given_back_goes_to_another),
    (begin_everywhere_at_the_first, test_cluster.test_followers_begin_at_their_own_places),
)


@pytest.mark.parametrize(("plant", "test"), PLANTED, ids=lambda value: value.__name__)
def test_a_planted_bug_is_caught(plant: Callable[[Patch], None], test: Callable[[], None], monkeypatch: Patch) -> None:
    assert passes(test)
    plant(monkeypatch)
    assert not passes(test)


def passes(test: Callable[[], None]) -> bool:
    try:
        test()
    except (Exception, pytest.fail.Exception):
        return False
    return True


class Stuck(Exception):
    """More virtual time has passed than any of these tests needs."""


@pytest.fixture(autouse=True)
def end_of_time(monkeypatch: Patch) -> None:
    """A bug may have a test wait for ever: then time ends."""
    from ganger.testing import FakeClock

    advance = FakeClock.advance

    def advance_to_the_end(self: FakeClock, milliseconds: int) -> None:
        advance(self, milliseconds)
        if self.now() > 10_000_000:
            raise Stuck

    monkeypatch.setattr(FakeClock, "advance", advance_to_the_end)
