"""Facts and the events that carry them."""

from ganger.core.clock import Wall
from ganger.core.event import Entry, Event, Fact
from ganger.core.ids import Position, QueueId, TaskId
from ganger.core.state import RULES


def test_every_move_tells_a_fact() -> None:
    assert {rule.fact for rule in RULES.values()} <= set(Fact)


def test_facts_that_no_move_tells_are_told_by_operations() -> None:
    told = {rule.fact for rule in RULES.values()}

    assert set(Fact) - told == {
        Fact.SUBMITTED,
        Fact.PROGRESSED,
        Fact.KILL_REQUESTED,
        Fact.REMOVED,
        Fact.QUEUE_CHANGED,
        Fact.QUEUE_REMOVED,
        Fact.NODE_JOINED,
        Fact.NODE_LEFT,
        Fact.NODE_LOST,
    }


def test_a_fact_is_written_in_the_words_of_its_name() -> None:
    assert all(fact == fact.name.lower() for fact in Fact)


def test_an_event_of_a_queue_or_a_node_names_no_tasks() -> None:
    about = Event(Position(1), Wall(0), Fact.NODE_JOINED, QueueId(0), 0, (), "n")

    assert (about.entries, about.subject) == ((), "n")


def test_an_entry_says_where_its_task_stands() -> None:
    assert Entry(TaskId(1), -2) == (1, -2, 0, None)
