"""Exchanges that wait at one moment are run as one: each gets its own verdicts, its own share, and its own error."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import GangerError, NodeGone, StoreUnavailable
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.state import Verdict, move
from ganger.core.task import Claimed
from ganger.engine.store import Claim, Exchange, Exchanged, Note, Progress
from ganger.engine.stores.postgres.gathering import LARGEST, SIDE_BY_SIDE, Gathering

AFTER = Wall(7)
QUEUE = QueueId(1)


def held(number: int) -> Claimed:
    return Claimed._make((number, QUEUE, "command", b"", 1, NodeId(1), None, 0, 0, 0, "", None, 0))


def ask(*ended: int, most: int = 1, holder: int = 1) -> Exchange:
    moves = tuple(move(TaskId(task), "succeed", Fence(1)) for task in ended)
    return Exchange(moves, Claim(NodeId(holder), (QUEUE,), most, start=True))


class Counter:
    """Serves steps when it is told to: hands out tasks in order, and refuses the moves of `stale` ones."""

    def __init__(self, tasks: int, stale: frozenset[int] = frozenset()) -> None:
        self.steps: list[Exchange] = []
        self.errors: dict[int, GangerError] = {}
        """What comes of the step with this number."""
        self._tasks = deque(range(100, 100 + tasks))
        self._stale = stale
        self._open = asyncio.Event()
        self.begun = asyncio.Event()
        """A step has begun that had to wait."""

    def open(self) -> None:
        self._open.set()

    async def exchange(self, request: Exchange) -> Exchanged:
        self.steps.append(request)
        number = len(self.steps)
        if number > SIDE_BY_SIDE:
            self.begun.set()
        await self._open.wait()
        if error := self.errors.get(number):
            raise error
        most = 0 if request.claim is None else request.claim.most
        given = [held(self._tasks.popleft()) for _ in range(min(most, len(self._tasks)))]
        refused = [(index, Verdict.STALE.value) for index, each in enumerate(request.moves) if each.task in self._stale]
        short = len(given) < most
        return Exchanged(refused, given, AFTER if short else None, waiting=short)


def tell(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await story()

    asyncio.run(bounded())


async def start(gathering: Gathering, *requests: Exchange) -> list["asyncio.Task[Exchanged]"]:
    """Let them come one after another, as far as they get."""
    tasks = []
    for request in requests:
        tasks.append(asyncio.create_task(gathering.exchange(request)))
        await asyncio.sleep(0)
    return tasks


def ids(reply: Exchanged) -> list[int]:
    return [one.id for one in reply.claimed]


def test_those_that_come_while_steps_are_under_way_are_one_step() -> None:
    async def story() -> None:
        counter = Counter(20)
        coming = await start(gathering := Gathering(counter.exchange), *(ask(number, most=2) for number in range(1, 6)))
        assert len(counter.steps) == SIDE_BY_SIDE
        counter.open()
        replies = await asyncio.gather(*coming)
        assert [ids(reply) for reply in replies] == [[100 + 2 * n, 101 + 2 * n] for n in range(5)]
        gathered = counter.steps[SIDE_BY_SIDE]
        assert [each.task for each in gathered.moves] == list(range(1 + SIDE_BY_SIDE, 6))
        assert gathered.claim == ask(most=2 * (5 - SIDE_BY_SIDE)).claim
        assert len(counter.steps) == SIDE_BY_SIDE + 1
        assert gathering._lines == {}

    tell(story)


def test_each_gets_the_verdicts_of_its_own_moves() -> None:
    async def story() -> None:
        counter = Counter(20, stale=frozenset({12, 13}))
        first = [ask() for _ in range(SIDE_BY_SIDE)]
        coming = await start(Gathering(counter.exchange), *first, ask(10, 11), ask(12), ask(14, 13))
        counter.open()
        replies = (await asyncio.gather(*coming))[SIDE_BY_SIDE:]
        stale = Verdict.STALE.value
        assert [reply.refused for reply in replies] == [[], [(0, stale)], [(1, stale)]]

    tell(story)


def test_where_there_is_too_little_the_first_have_theirs_and_the_others_hear_when_to_look_again() -> None:
    async def story() -> None:
        counter = Counter(SIDE_BY_SIDE + 3)
        first = [ask() for _ in range(SIDE_BY_SIDE)]
        coming = await start(Gathering(counter.exchange), *first, ask(most=2), ask(most=2), ask(most=2))
        counter.open()
        replies = (await asyncio.gather(*coming))[SIDE_BY_SIDE:]
        assert [len(reply.claimed) for reply in replies] == [2, 1, 0]
        assert [(reply.next_due, reply.waiting) for reply in replies] == [(None, False), (AFTER, True), (AFTER, True)]

    tell(story)


def test_a_step_that_is_refused_is_run_again_one_by_one() -> None:
    async def story() -> None:
        counter = Counter(20)
        first = [ask() for _ in range(SIDE_BY_SIDE)]
        counter.errors = {SIDE_BY_SIDE + 1: NodeGone("gone"), SIDE_BY_SIDE + 2: NodeGone("gone")}
        coming = await start(Gathering(counter.exchange), *first, ask(1), ask(2), ask(3))
        counter.open()
        bad, *good = (await asyncio.gather(*coming, return_exceptions=True))[SIDE_BY_SIDE:]
        assert isinstance(bad, NodeGone)
        assert [ids(reply) for reply in good if isinstance(reply, Exchanged)] == [
            [100 + SIDE_BY_SIDE],
            [101 + SIDE_BY_SIDE],
        ]

    tell(story)


def test_where_nobody_knows_what_was_stored_nothing_is_run_again() -> None:
    async def story() -> None:
        counter = Counter(20)
        first = [ask() for _ in range(SIDE_BY_SIDE)]
        counter.errors = {SIDE_BY_SIDE + 1: StoreUnavailable("gone")}
        coming = await start(Gathering(counter.exchange), *first, ask(1), ask(2))
        counter.open()
        said = (await asyncio.gather(*coming, return_exceptions=True))[SIDE_BY_SIDE:]
        assert [type(each) for each in said] == [StoreUnavailable] * 2
        assert len(counter.steps) == SIDE_BY_SIDE + 1

    tell(story)


def test_those_who_wait_behind_a_server_that_is_gone_do_not_wait_for_it_again() -> None:
    async def story() -> None:
        counter = Counter(20)
        counter.errors = {number: StoreUnavailable("gone") for number in range(1, SIDE_BY_SIDE + 1)}
        coming = await start(Gathering(counter.exchange), *(ask() for _ in range(SIDE_BY_SIDE + 3)))
        counter.open()
        said = await asyncio.gather(*coming, return_exceptions=True)
        assert [type(each) for each in said] == [StoreUnavailable] * (SIDE_BY_SIDE + 3)
        assert len(counter.steps) == SIDE_BY_SIDE

    tell(story)


def test_one_that_is_cancelled_while_it_waits_is_left_out() -> None:
    async def story() -> None:
        counter = Counter(20)
        first = [ask() for _ in range(SIDE_BY_SIDE)]
        coming = await start(Gathering(counter.exchange), *first, ask(1), ask(2), ask(3))
        coming.pop(SIDE_BY_SIDE + 1).cancel()
        counter.open()
        await asyncio.gather(*coming)
        assert [each.task for each in counter.steps[-1].moves] == [1, 3]

    tell(story)


def test_one_that_is_cancelled_under_way_takes_nobody_with_it() -> None:
    async def story() -> None:
        counter = Counter(20)
        coming = await start(gathering := Gathering(counter.exchange), *(ask() for _ in range(SIDE_BY_SIDE + 2)))
        coming.pop(0).cancel()
        await counter.begun.wait()
        coming.pop().cancel()
        counter.open()
        assert [len(reply.claimed) for reply in await asyncio.gather(*coming)] == [1] * SIDE_BY_SIDE
        while gathering._running:
            await asyncio.wait(gathering._running)
        assert gathering._lines == {}

    tell(story)


def test_no_step_of_several_is_larger_than_it_should_be() -> None:
    async def story() -> None:
        counter = Counter(10 * LARGEST)
        first = [ask() for _ in range(SIDE_BY_SIDE)]
        sizes = (LARGEST - 1, 1, 1, 2 * LARGEST, 1)
        coming = await start(Gathering(counter.exchange), *first, *(ask(most=size) for size in sizes))
        counter.open()
        replies = await asyncio.gather(*coming)
        assert [len(reply.claimed) for reply in replies[SIDE_BY_SIDE:]] == list(sizes)
        asked = [step.claim.most for step in counter.steps[SIDE_BY_SIDE:] if step.claim is not None]
        assert asked == [LARGEST, 1, 2 * LARGEST, 1]

    tell(story)


@pytest.mark.parametrize(
    "other",
    [
        ask(holder=2),
        ask()._replace(claim=Claim(NodeId(1), ids=(TaskId(1),), start=True)),
        ask(1)._replace(all_or_nothing=True),
        ask(1)._replace(notes=(Note(TaskId(1), Fence(1), progress=Progress(1.0, None)),)),
        ask()._replace(moves=(move(TaskId(1), "fail", Fence(1)),)),
        ask(1)._replace(claim=None),
    ],
)
def test_what_asks_for_something_else_waits_for_nobody(other: Exchange) -> None:
    async def story() -> None:
        counter = Counter(20)
        coming = await start(Gathering(counter.exchange), *(ask() for _ in range(SIDE_BY_SIDE + 1)), other)
        assert counter.steps == [*[ask()] * SIDE_BY_SIDE, other]
        counter.open()
        await asyncio.gather(*coming)

    tell(story)
