"""When a lock may be taken, and until when it is trusted."""

from typing import Any

import pytest

from ganger.coordination.backend import Reading, Version
from ganger.coordination.lease import FREE, Lease, Sights, Terms, check_terms, find_wait, read_lease
from ganger.core.clock import Moment, Wall
from ganger.core.errors import BadDocument, BadNumber

TERMS = Terms(10_000)
START = 1_700_000_000_000


def wait(sights: Sights, expire: int, at: int, now: int, number: int = 1) -> int:
    reading = Reading({"holder": "a", "expire": expire}, Version(1, number), Wall(at))
    return find_wait("lock/a", reading, TERMS, sights, Moment(now))


def test_what_is_absent_or_has_no_expire_is_free() -> None:
    for document in (
        None,
        {},
        {"holder": "a", "expire": 0},
        {"holder": None, "expire": 5},
        {"holder": "", "expire": 5},
    ):
        version = None if document is None else Version(1, 1)
        reading = Reading(document, version, Wall(0))
        assert find_wait("lock/a", reading, TERMS, Sights(), Moment(0)) == 0


def test_a_lock_is_not_taken_before_it_has_expired_by_the_stores_clock() -> None:
    sights = Sights()

    assert wait(sights, START + 10_000, START, 0) == 11_001
    assert wait(sights, START + 10_000, START + 10_999, 50_000) == 2
    assert wait(sights, START + 10_000, START + 11_000, 50_000) == 1
    assert wait(sights, START + 10_000, START + 11_001, 50_000) == 0


def test_a_clock_that_jumps_forward_takes_nothing() -> None:
    sights = Sights()
    wait(sights, START + 10_000, START, 0)

    assert wait(sights, START + 10_000, START + 3_600_000, 1_000) == 9_000
    assert wait(sights, START + 10_000, START + 3_600_000, 9_999) == 1
    assert wait(sights, START + 10_000, START + 3_600_000, 10_000) == 0


def test_each_renewal_begins_the_wait_anew() -> None:
    sights = Sights()
    wait(sights, START, START + 99_000, 0)

    assert wait(sights, START, START + 99_000, 9_000, number=2) == 10_000
    assert wait(sights, START, START + 99_000, 18_999, number=2) == 1
    assert wait(sights, START, START + 99_000, 19_000, number=2) == 0


def test_a_version_that_was_seen_long_ago_was_unchanged_all_the_time() -> None:
    sights = Sights()
    wait(sights, START, START + 1, 0)

    assert wait(sights, START, START + 3_600_000, 3_600_000) == 0


def test_a_longer_lease_of_another_is_respected() -> None:
    sights = Sights()
    wait(sights, START + 60_000, START, 0)

    assert wait(sights, START + 60_000, START + 3_600_000, 30_000) == 30_000


@pytest.mark.parametrize(
    "document",
    [
        {"holder": 5, "expire": 1}, {"holder": "a", "expire": "soon"}, {"holder": "a", "expire": True},
        {"holder": "a", "expire": -1}, {"holder": "a", "expire": 1.5}, {"holder": ["a"], "expire": 1},
        {"holder": "a", "expire": None},
    ],
)  # fmt: skip
def test_a_document_that_somebody_spoilt_is_named(document: dict[str, Any]) -> None:
    with pytest.raises(BadDocument, match="lock/a"):
        read_lease("lock/a", document)


def test_a_lease_is_read_as_it_was_written() -> None:
    assert read_lease("x", {"holder": "a", "expire": 1515527529288}) == Lease("a", 1515527529288)
    assert read_lease("x", None) == FREE


def test_times_that_make_no_sense_are_refused() -> None:
    for ttl in (-1, 0, 99, 86_400_001):
        with pytest.raises(BadNumber):
            check_terms(ttl)
    assert check_terms(100).margin == 10


def test_the_holders_time_ends_before_a_contenders_begins() -> None:
    for ttl in (100, 999, 10_000, 86_400_000):
        terms = Terms(ttl)
        assert 0 < ttl - terms.margin < ttl
        assert terms.renewal * 2 < ttl - terms.margin
