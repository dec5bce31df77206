"""What is to be looked at when: a time and an id for each, and nothing else, because there may be very many."""

from heapq import heapify, heappop, heappush

from ganger.core.ids import TaskId


class Agenda:
    """Tasks by the wall time at which each is due. Planning a task again replaces its time."""

    def __init__(self) -> None:
        self._times: dict[TaskId, int] = {}
        self._heap: list[tuple[int, TaskId]] = []

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._times

    def plan(self, task: TaskId, at: int) -> None:
        if self._times.get(task) == at:
            return
        self._times[task] = at
        heappush(self._heap, (at, task))
        if len(self._heap) > 2 * len(self._times) + 64:
            self._heap = [(time, planned) for planned, time in self._times.items()]
            heapify(self._heap)

    def drop(self, task: TaskId) -> None:
        self._times.pop(task, None)

    def clear(self) -> None:
        self._times.clear()
        self._heap.clear()

    def next(self) -> int | None:
        """The time of the first one, None if there is none."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, until: int, most: int) -> list[TaskId]:
        """At most so many whose time has come; they are planned no more."""
        taken: list[TaskId] = []
        while len(taken) < most and (first := self.next()) is not None and first <= until:
            _, task = heappop(self._heap)
            del self._times[task]
            taken.append(task)
        return taken
