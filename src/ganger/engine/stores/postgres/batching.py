"""Which batch each new task of a queue falls into."""

from collections import Counter
from collections.abc import Iterable, Iterator

from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.step import Step


class Batches:
    """How full the batches of some queues are, while new tasks fall into them in their order."""

    def __init__(self, sizes: dict[int, int], open_ones: dict[int, tuple[int, int]], numbers: Iterator[int]) -> None:
        self._sizes = sizes
        self._open = open_ones
        self._numbers = numbers

    def next(self, queue: int) -> int | None:
        """The batch of the next task of the queue; None if the queue makes none."""
        if queue not in self._sizes:
            return None
        number, fill = self._open[queue]
        if fill >= self._sizes[queue]:
            number, fill = next(self._numbers), 0
        self._open[queue] = number, fill + 1
        return number

    async def store(self, step: Step) -> None:
        for queue, (number, fill) in self._open.items():
            await step.run(Q.batch_put, queue, number, fill)


async def read_batches(step: Step, queues: Iterable[int]) -> Batches:
    """The batches for new tasks of these queues, one for each task; numbers for all that they begin are drawn."""
    coming = Counter(queue for queue in queues if step.shelf.queues[queue].policy.batch_size is not None)
    sizes = {queue: step.shelf.queues[queue].policy.batch_size or 0 for queue in coming}
    open_ones = {queue: await _read_open(step, queue, size) for queue, size in sizes.items()}
    needed = sum(_begun(n, sizes[queue], open_ones[queue][1]) for queue, n in coming.items())
    if not needed:
        return Batches(sizes, open_ones, iter(()))
    ((_, first, _, _),) = await step.run(Q.turnstile, 0, needed)
    return Batches(sizes, open_ones, iter(range(first, first + needed)))


async def _read_open(step: Step, queue: int, size: int) -> tuple[int, int]:
    for number, fill in await step.run(Q.batch_read, queue):
        return number, min(fill, size)
    return 0, size


def _begun(n: int, size: int, fill: int) -> int:
    """How many batches n more tasks begin."""
    over = n - (size - fill)
    return -(-over // size) if over > 0 else 0
