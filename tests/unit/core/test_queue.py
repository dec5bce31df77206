"""Queues and their policies."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import BadName, BadNumber, BadPolicy, GangerError
from ganger.core.ids import QueueId
from ganger.core.queue import FOREVER, Counts, Policy, Queue, check_policy, with_retry
from ganger.core.retry import NEVER, Fixed, Retry, from_text


def queue(**policy: object) -> Queue:
    return Queue(QueueId(1), "mail", Policy(**policy))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "takes"),
    [
        ({}, {"a", "b"}),
        ({"pin": ("a",)}, {"a"}),
        ({"ignore": ("a",)}, {"b"}),
        ({"pin": ("a",), "ignore": ("a",)}, {"a"}),
        ({"pin": ("c",)}, set()),
    ],
)
def test_a_queue_takes_the_nodes_that_it_pins_or_does_not_ignore(policy: dict[str, object], takes: set[str]) -> None:
    assert {name for name in ("a", "b") if queue(**policy).takes_node(name)} == takes


def test_a_queue_is_paused_until_its_moment() -> None:
    paused = queue()._replace(paused_until=Wall(100))

    assert [paused.paused(Wall(wall)) for wall in (0, 99, 100, 101)] == [True, True, False, False]
    assert not queue().paused(Wall(0))


def test_a_queue_may_be_paused_for_ever() -> None:
    assert queue()._replace(paused_until=FOREVER).paused(Wall(1 << 61))


def test_what_is_to_do_counts_every_code_that_is_not_positive() -> None:
    counts = Counts(QueueId(1), {-9: 1, -8: 2, -5: 3, -2: 4, 0: 5, 1: 60, 2: 70, 9: 80}, 225)

    assert counts.todo == 15
    assert sum(counts.by_status.values()) == counts.total


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(max_active=0, max_per_node=0, max_per_key=0), Policy(sort="lifo", batch_size=1, pin=("n",))],
)
def test_a_sound_policy_is_given_back(policy: Policy) -> None:
    assert check_policy(policy) is policy


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"max_active": -1}, BadNumber),
        ({"max_per_node": -1}, BadNumber),
        ({"max_per_key": -1}, BadNumber),
        ({"batch_size": 0}, BadNumber),
        ({"sort": "random"}, BadPolicy),
        ({"on_lost": "shrug"}, BadPolicy),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_its_field(
    change: dict[str, object], error: type[GangerError]
) -> None:
    with pytest.raises(error) as refused:
        check_policy(Policy()._replace(**change))  # type: ignore[arg-type]

    assert refused.value.fields["field"] in change


@pytest.mark.parametrize("field", ["pin", "ignore"])
def test_a_node_that_cannot_be_called_so_is_refused(field: str) -> None:
    with pytest.raises(BadName):
        check_policy(Policy(**{field: ("a\nb",)}))  # type: ignore[arg-type]


def test_the_retry_policy_of_a_queue_is_kept_as_text() -> None:
    assert from_text(Policy().retry) == NEVER
    assert from_text(with_retry(Policy(), Retry(3, Fixed(5))).retry) == Retry(3, Fixed(5))


def test_a_retry_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadPolicy):
        with_retry(Policy(), Retry(-1))
