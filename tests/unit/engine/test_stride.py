"""A follower reads few events at first, and many only if they name few tasks."""

from ganger.core.clock import Wall
from ganger.core.event import Entry, Event, Fact
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.engine.follow import Stride


def told(tasks: int) -> Event:
    entries = tuple(Entry(TaskId(number), -2, Fence(0)) for number in range(1, tasks + 1))
    return Event(Position(1), Wall(0), Fact.SUBMITTED, QueueId(1), 0, entries)


def test_pages_grow_while_events_are_small_and_never_beyond_a_bound() -> None:
    stride, seen = Stride(), []
    for _ in range(12):
        seen.append(stride.most)
        stride.note([told(1)] * stride.most)

    assert seen == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256]


def test_pages_shrink_when_events_name_thousands_of_tasks() -> None:
    stride = Stride()
    for _ in range(4):
        stride.note([told(1)])
    for _ in range(6):
        stride.note([told(5_000)])

    assert stride.most == 1
