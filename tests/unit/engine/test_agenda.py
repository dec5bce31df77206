"""The agenda gives what is due in order, once, and stays as small as what it holds."""

from hypothesis import given
from hypothesis import strategies as st

from ganger.core.ids import TaskId
from ganger.engine.agenda import Agenda

TASKS = st.integers(1, 20).map(TaskId)


def test_what_is_due_comes_in_order_and_once() -> None:
    agenda = Agenda()
    for task, at in ((1, 30), (2, 10), (3, 20)):
        agenda.plan(TaskId(task), at)
    assert agenda.next() == 10
    assert agenda.take(20, 10) == [2, 3]
    assert agenda.take(20, 10) == []
    assert (agenda.next(), len(agenda), TaskId(1) in agenda) == (30, 1, True)


def test_a_new_time_replaces_the_old_one() -> None:
    agenda = Agenda()
    agenda.plan(TaskId(1), 10)
    agenda.plan(TaskId(1), 50)
    assert agenda.take(49, 10) == []
    assert agenda.take(50, 10) == [1]


def test_planning_again_and_again_does_not_make_it_grow() -> None:
    agenda = Agenda()
    for at in range(10_000):
        agenda.plan(TaskId(at % 3), at)
    assert len(agenda._heap) < 100


@given(st.lists(st.tuples(TASKS, st.integers(0, 100) | st.none())), st.integers(0, 100))
def test_it_says_what_a_plain_table_would(plans: list[tuple[TaskId, int | None]], until: int) -> None:
    agenda, table = Agenda(), dict[TaskId, int]()
    for task, at in plans:
        if at is None:
            agenda.drop(task)
            table.pop(task, None)
        else:
            agenda.plan(task, at)
            table[task] = at
    assert agenda.next() == min(table.values(), default=None)
    assert sorted(agenda.take(until, 1_000)) == sorted(task for task, at in table.items() if at <= until)
