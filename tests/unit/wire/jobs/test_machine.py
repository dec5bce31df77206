"""The states of a worker's connection."""

from hypothesis import given
from hypothesis import strategies as st

from ganger.wire.jobs.machine import (
    Accept,
    Admit,
    Ask,
    Connection,
    Give,
    Kick,
    Offer,
    Pace,
    Phase,
    Report,
    Step,
    Withdraw,
)
from ganger.wire.jobs.messages import Failed, Message, Progress, Registration, Status, WorkerStatus

HELLO = Registration("name", "id", "token")
READY, BUSY = Status(WorkerStatus.READY), Status(WorkerStatus.BUSY)
PACE = Pace()


def ready() -> Connection:
    """A worker that has said that it is ready, at time 0."""
    connection = Connection(PACE, 0)
    assert connection.hear(HELLO, 0) == [Admit(HELLO)]
    assert connection.admit(0) == [Ask()]
    assert connection.hear(READY, 0) == [Offer()]
    return connection


def working() -> Connection:
    connection = ready()
    assert connection.send_job(0)
    return connection


def is_kick(steps: list[Step]) -> bool:
    return any(isinstance(step, Kick) for step in steps)


def test_to_take_the_next_at_once_is_to_be_asked_to_be_ready_and_to_be_sent_it() -> None:
    quick, slow = working(), working()
    for connection in (quick, slow):
        assert connection.tick(PACE.every) == [Ask()]
    quick.take_next(PACE.every + 5)
    slow.end_job(PACE.every + 5)
    slow.hear(READY, PACE.every + 5)
    assert slow.send_job(PACE.every + 5)
    assert vars(quick) == vars(slow)


def test_a_job_goes_only_to_one_who_is_ready_and_only_one_at_a_time() -> None:
    connection = Connection(PACE, 0)
    assert not connection.send_job(0)
    connection = ready()
    assert connection.send_job(0)
    assert not connection.send_job(0)


def test_a_result_ends_the_job_and_the_worker_is_asked() -> None:
    connection = working()
    assert connection.hear_binary(1) == [Accept()]
    assert connection.end_job(2) == [Ask()]
    assert not connection.send_job(2)
    assert connection.hear(READY, 3) == [Offer()]


def test_a_failure_ends_the_job_too() -> None:
    connection = working()
    assert connection.hear(Failed("logs", "info"), 1) == [Give(Failed("logs", "info"))]
    assert connection.end_job(1) == [Ask()]


def test_progress_counts_only_while_it_works() -> None:
    told = Progress(5.0, None)
    assert working().hear(told, 1) == [Report(told)]
    assert ready().hear(told, 1) == []


def test_who_says_busy_is_not_looked_for_any_more() -> None:
    connection = ready()
    assert connection.hear(READY, 1) == []
    assert connection.hear(BUSY, 1) == [Withdraw()]
    assert connection.hear(READY, 2) == [Offer()]


def test_ready_with_a_job_counts_only_as_an_answer() -> None:
    connection = working()
    assert connection.hear(READY, 1) == []
    assert connection.tick(20_000) == [Ask()]
    assert is_kick(connection.hear(READY, 20_001))


def test_a_silent_worker_is_asked_twice_and_then_given_up() -> None:
    connection = working()
    assert connection.tick(9_999) == []
    assert connection.tick(10_000) == [Ask()]
    assert connection.tick(15_000) == []
    assert connection.tick(20_000) == [Ask()]
    assert is_kick(connection.tick(30_000))


def test_an_answer_gives_it_time_again() -> None:
    connection = working()
    connection.tick(10_000)
    connection.tick(20_000)
    assert connection.hear(BUSY, 29_000) == []
    assert connection.tick(30_000) == []
    assert connection.tick(39_000) == [Ask()]


def test_content_that_comes_is_a_sign_of_life() -> None:
    connection = working()
    connection.tick(10_000)
    connection.tick(20_000)
    connection.hear_more(29_999)
    assert not is_kick(connection.tick(30_000))


def test_an_idle_worker_is_asked_when_its_word_is_old() -> None:
    connection = ready()
    assert connection.tick(59_999) == []
    assert connection.tick(60_000) == [Withdraw(), Ask()]
    assert connection.phase is Phase.ASKED


def test_the_grace_counts_from_the_opening_and_ends_when_it_registers() -> None:
    connection = Connection(PACE, 100)
    assert connection.tick(599) == []
    assert is_kick(connection.tick(600))
    connection.hear(HELLO, 599)
    assert connection.tick(700) == []


def test_one_that_was_refused_is_told_at_the_end_of_the_grace() -> None:
    connection = Connection(PACE, 0)
    connection.hear(HELLO, 1)
    connection.refuse()
    assert (
        connection.hear(READY, 2)
        == connection.hear_binary(2)
        == connection.hear(HELLO, 3)
        == connection.tick(499)
        == []
    )
    assert is_kick(connection.tick(500))


MESSAGES = st.sampled_from([HELLO, READY, BUSY, Progress(1.0), Failed(), None])


@given(st.lists(st.tuples(MESSAGES, st.integers(0, 40_000), st.booleans()), max_size=40))
def test_whatever_is_said_at_most_one_job_is_open_and_every_result_belongs_to_one(
    told: list[tuple[Message | None, int, bool]],
) -> None:
    connection, now, open_jobs, offered = Connection(PACE, 0), 0, 0, False
    for message, later, sends in told:
        now += later
        steps = connection.tick(now)
        steps += connection.hear_binary(now) if message is None else connection.hear(message, now)
        while steps:
            step = steps.pop(0)
            if isinstance(step, Kick):
                return
            if isinstance(step, Admit):
                steps += connection.admit(now)
            if isinstance(step, Accept | Give):
                assert open_jobs == 1
                open_jobs = 0
                steps += connection.end_job(now)
            offered = isinstance(step, Offer) or (offered and not isinstance(step, Withdraw))
        if sends and offered and connection.send_job(now):
            offered = False
            open_jobs += 1
        assert open_jobs == (connection.phase is Phase.WORKING)
        assert offered == (connection.phase is Phase.READY)
