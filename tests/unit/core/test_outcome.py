"""The move that follows from each outcome and from each loss."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadNumber
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.outcome import (
    AVOID,
    Crashed,
    Fail,
    Hold,
    Killed,
    Outcome,
    Release,
    Succeed,
    after_loss,
    settle,
)
from ganger.core.queue import OnLost
from ganger.core.retry import LONGEST_DELAY, NEVER, Delays, Fixed, Retry, to_text
from ganger.core.state import RULES, Move, Status, Verdict, is_final, judge
from ganger.core.task import LAST_PRIORITY, Claimed

WALL = 1_000_000


def claimed(retry: Retry = NEVER, **fields: Any) -> Claimed:
    one = Claimed(TaskId(7), QueueId(1), "function", b"", Fence(3), NodeId(5), None, 100, 0, 0, to_text(retry), None, 0)
    return one._replace(**fields)


def end(outcome: Outcome, task: Claimed | None = None, **fields: Any) -> Move:
    return settle(task or claimed(), outcome, WALL, 0.5, **fields)


def lose(**fields: Any) -> Move:
    said: dict[str, Any] = {
        "started": True, "left": False, "crashes": 0, "retry": to_text(NEVER), "on_lost": OnLost.RETRY, "kill": False,
        "holder": "ada",
    }  # fmt: skip
    return after_loss(TaskId(7), Fence(3), **{**said, **fields})


def test_success_carries_the_result_under_the_fence() -> None:
    assert end(Succeed(b"42")) == Move(TaskId(7), "succeed", Status.SUCCEEDED, fence=Fence(3), result=b"42")


def test_a_failure_without_attempts_left_ends_the_task_with_its_code() -> None:
    move = end(Fail(17, "no such file"))

    assert (move.rule, move.target, move.reason) == ("fail", 17, "no such file")


def test_a_failure_with_attempts_left_is_tried_again_later_elsewhere_and_sunk() -> None:
    move = end(Fail(), claimed(Retry(3, Fixed(500), sink=10)))

    assert (move.rule, move.due, move.priority, move.avoid) == ("retry_later", WALL + 500, 110, AVOID)


def test_a_retry_without_a_delay_is_ready_at_once() -> None:
    move = end(Fail(), claimed(Retry(3, Fixed(0))))

    assert (move.rule, move.due) == ("retry", None)


def test_the_attempt_that_just_failed_counts() -> None:
    policy = Retry(3, Delays((10, 20, 30)))

    assert end(Fail(), claimed(policy, attempts=1)).due == WALL + 20
    assert end(Fail(), claimed(policy, attempts=2)).rule == "fail"


def test_a_failure_may_name_its_own_delay_but_not_its_number_of_attempts() -> None:
    policy = Retry(2, Fixed(500))

    assert end(Fail(delay=9_000), claimed(policy)).due == WALL + 9_000
    assert end(Fail(delay=0), claimed(policy)).rule == "retry"
    assert end(Fail(delay=9_000), claimed(policy, attempts=1)).rule == "fail"
    assert end(Fail(delay=9_000, reason="busy")).reason == "busy (failed 1 of 1 attempts, the last with code 2)"


@pytest.mark.parametrize("delay", [-1, LONGEST_DELAY + 1])
def test_a_delay_that_no_store_can_keep_is_refused(delay: int) -> None:
    with pytest.raises(BadNumber):
        end(Fail(delay=delay), claimed(Retry(2)))


def test_a_priority_sinks_no_further_than_the_last() -> None:
    assert end(Fail(), claimed(Retry(2, sink=9), priority=LAST_PRIORITY - 1)).priority == LAST_PRIORITY


def test_a_failure_that_is_useless_to_repeat_ends_at_once() -> None:
    assert end(Fail(again=False), claimed(Retry(9))).rule == "fail"


def test_a_spent_task_is_held_if_its_policy_says_so() -> None:
    move = end(Fail(3), claimed(Retry(1, hold_when_spent=True)))

    assert (move.rule, move.reason) == ("bury", "failed with code 3")


@pytest.mark.parametrize("code", [-1, 0, 1, 1 << 31])
def test_a_code_that_is_no_failure_is_refused(code: int) -> None:
    with pytest.raises(BadNumber, match="code of a failure"):
        end(Fail(code))


def test_a_release_counts_nothing_and_may_wait_and_change_priority() -> None:
    assert end(Release()).rule == "release"
    later = end(Release(2_000, 5))
    assert (later.rule, later.due, later.priority) == ("release_later", WALL + 2_000, 5)


@pytest.mark.parametrize("released", [Release(-1), Release(priority=-1), Release(priority=1 << 32)])
def test_a_release_with_impossible_numbers_is_refused(released: Release) -> None:
    with pytest.raises(BadNumber):
        end(released)


def test_holding_and_killing_carry_their_reasons() -> None:
    assert end(Hold("look at it"))[1:3] == ("bury", Status.HELD)
    assert end(Killed("asked for"))[1:3] == ("terminate", Status.TERMINATED)
    assert end(Killed("asked for")).reason == "asked for"


def test_a_crash_counts_as_a_crash_and_goes_elsewhere() -> None:
    move = end(Crashed("signal 9"), claimed(crashes=1))

    assert (move.rule, move.crashed, move.avoid, move.reason) == ("lose", True, AVOID, "signal 9")


def test_the_last_crash_holds_the_task_with_a_sentence() -> None:
    move = end(Crashed("signal 9"), claimed(crashes=2))

    assert (move.rule, move.crashed) == ("lose_to_hold", True)
    assert move.reason == "crashed 3 times, the last time because signal 9; look at it and kick it"


def test_a_queue_without_a_limit_of_crashes_never_holds() -> None:
    assert end(Crashed(), claimed(Retry(max_crashes=0), crashes=99)).rule == "lose"


def test_a_crash_in_a_queue_that_does_not_repeat_lost_tasks_orphans() -> None:
    assert end(Crashed(), on_lost=OnLost.ORPHAN).rule == "lose_to_orphan"


def test_a_lost_task_goes_back_and_is_blamed_if_it_had_started() -> None:
    move = lose()

    assert (move.rule, move.crashed, move.fence, move.reason) == ("lose", True, 3, "ada was lost")


@pytest.mark.parametrize("fields", [{"started": False}, {"left": True}, {"started": False, "left": True}])
def test_nothing_is_blamed_on_a_task_that_had_not_started_or_whose_holder_left(fields: dict[str, bool]) -> None:
    move = lose(crashes=99, **fields)

    assert (move.rule, move.crashed, move.avoid) == ("lose", False, 0)


def test_a_kill_that_was_asked_for_ends_a_lost_task_before_anything_else() -> None:
    assert lose(kill=True, on_lost=OnLost.ORPHAN, crashes=99).rule == "lose_killed"


def test_a_lost_task_of_an_orphaning_queue_is_over() -> None:
    assert lose(on_lost=OnLost.ORPHAN, crashes=99).rule == "lose_to_orphan"


def test_a_task_that_its_nodes_keep_dying_of_is_held() -> None:
    move = lose(crashes=2)

    assert move.rule == "lose_to_hold"
    assert move.reason is not None
    assert "crashed 3 times" in move.reason


DELAYS = st.none() | st.integers(0, 9_999)
OUTCOMES = st.one_of(
    st.builds(Succeed, st.none() | st.binary(max_size=3)),
    st.builds(Fail, st.integers(2, 99), st.none() | st.text(max_size=3), st.booleans(), DELAYS),
    st.builds(Release, st.integers(0, 9_999), st.none() | st.integers(0, LAST_PRIORITY)),
    st.builds(Hold), st.builds(Killed), st.builds(Crashed),
)  # fmt: skip
POLICIES = st.builds(
    lambda most, delay, crashes, sink, hold: Retry(most, Fixed(delay), (), crashes, sink, hold),
    st.integers(0, 5), st.integers(0, 99), st.integers(0, 5), st.integers(0, LAST_PRIORITY), st.booleans(),
)  # fmt: skip
TASKS = st.builds(
    lambda policy, attempts, crashes: claimed(policy, attempts=attempts, crashes=crashes),
    POLICIES, st.integers(0, 9), st.integers(0, 9),
)  # fmt: skip


@given(OUTCOMES, TASKS, st.sampled_from(OnLost), st.floats(0, 0.999))
def test_every_outcome_is_one_move_that_the_table_allows_to_the_holder(
    outcome: Outcome, task: Claimed, on_lost: str, luck: float
) -> None:
    move = settle(task, outcome, WALL, luck, on_lost)
    rule = RULES[move.rule]

    assert judge(rule, Status.RUNNING, 3, move.fence, lease_valid=True) is Verdict.APPLIED
    assert move.target == rule.target or (rule.name == "fail" and move.target > rule.target)
    assert move.priority is None or 0 <= move.priority <= LAST_PRIORITY
    assert (move.due is not None) == (move.target == Status.DELAYED)
    assert isinstance(outcome, Succeed) == (move.target == Status.SUCCEEDED)
    if isinstance(outcome, Release):
        assert not is_final(move.target)
