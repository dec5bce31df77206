"""A scripted life of a store: every kind of write, round after round, with the facts that its caller may rely on.

The script never takes back what it told as a fact, except through retention: before it prunes it says which rounds are
not promised any more. So at any instant the facts told until then must hold, whatever happened to the disk since.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from ganger.core.audit import Act
from ganger.core.clock import Wall
from ganger.core.graph import Edge, On
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.retry import Fixed, Retry, to_text
from ganger.core.state import Move, move
from ganger.core.task import Claimed, NewTask, OnConflict
from ganger.engine.store import (
    Change,
    Chunk,
    Claim,
    Configure,
    Datum,
    Edit,
    Edits,
    Exchange,
    Exchanged,
    NodeChange,
    Note,
    Progress,
    Query,
    QueueChange,
    Store,
    Submission,
    Submitted,
    Tend,
    Touch,
)
from ganger.testing.clock import FakeClock
from tests.chaos.harness import Fact, loss_of

T = TypeVar("T")
Ask = Callable[[Callable[[], Awaitable[T]]], Awaitable[T | None]]
"""How the script calls: None means that it was done by an earlier try whose answer was lost."""

KEPT_ROUNDS: Final = 2
LONG: Final = 10_000_000
FRAGILE: Final = 20_000
_SUBMITTED: Final = """
    SELECT id, coalesce(length(spec), (SELECT size FROM data WHERE task = task.id AND key = 'spec'))
    FROM task WHERE key = ?"""
_STARTED: Final = """
    SELECT count(*) FROM (
        SELECT started FROM task WHERE id = ?1 AND fence = ?2 AND status = 0
        UNION ALL SELECT started FROM attempt WHERE task = ?1 AND fence = ?2
    ) WHERE started IS NOT NULL"""
_AGAIN: Final = to_text(Retry(max_attempts=50, backoff=Fixed(500), max_crashes=0))


class Told(NamedTuple):
    """A fact of a round."""

    round: int
    fact: Fact


class Retired(NamedTuple):
    """Rounds before this one are not promised any more."""

    before: int


News = Told | Retired


def promised(news: list[News]) -> list[Fact]:
    """The facts that hold after these news."""
    first = max((one.before for one in news if isinstance(one, Retired)), default=0)
    return [one.fact for one in news if isinstance(one, Told) and one.round >= first]


class Script:
    """`tell` is given every fact, no earlier than the store's answer that makes it one.

    A script that goes on where another stopped is given the number of its `first` round.
    """

    def __init__(
        self, store: Store, clock: FakeClock, ask: Callable[..., Any], tell: Callable[[News], None], *, first: int = 0
    ) -> None:
        self._store = store
        self._clock = clock
        self._ask = ask
        self._tell = tell
        self._round = self._first = first
        self._starts: dict[int, int] = {}
        self._work = self._graph = QueueId(0)
        self._node = NodeId(0)

    async def play(self, rounds: int) -> None:
        await self.set_up()
        for number in range(self._first, self._first + rounds):
            await self.play_round(number)

    async def play_round(self, number: int) -> None:
        self._round = number
        self._starts[number] = self._clock.wall()
        await self._submit()
        claimed = await self._claim()
        await self._speak(claimed)
        await self._settle(claimed)
        await self._operate()
        await self._lapse()
        await self._read()
        await self._tend()

    async def set_up(self) -> None:
        self._work = await self._make_queue("work", Policy(retry=_AGAIN))
        self._graph = await self._make_queue("graph", Policy())
        self._node = await self._register(self._steady, LONG)

    @property
    def _steady(self) -> str:
        return f"steady{self._first}"

    async def _make_queue(self, name: str, policy: Policy) -> QueueId:
        made = await self._do(lambda: self._store.configure(Configure(queue=QueueChange(name=name, policy=policy))))
        assert made.queue is not None
        queue = made.queue.id
        self._fact("queue made", "SELECT name FROM queue WHERE id = ?", (queue,), (name,))
        return queue

    async def _register(self, name: str, lease: int) -> NodeId:
        said = Registration(name=name, token=f"token of {name}", lease=lease)
        made = await self._do(lambda: self._store.configure(Configure(node=NodeChange(register=said))))
        assert made.node is not None
        node = made.node.id
        self._fact("node registered", "SELECT lease FROM node WHERE id = ?", (node,), (lease,))
        return node

    async def _do(self, call: Callable[[], Awaitable[T]]) -> T:
        """A call whose answer is needed: one that was done before and refused now is asked for anew by its caller."""
        answer = await self._ask(call)
        assert answer is not None
        return answer  # type: ignore[no-any-return]

    def _fact(self, about: str, question: str, values: tuple[Any, ...], answer: tuple[Any, ...] | None) -> None:
        self._tell(Told(self._round, Fact(f"round {self._round}: {about} {values}", question, values, answer)))

    def _new(self, name: str, queue: QueueId, **more: Any) -> NewTask:
        spec = more.pop("spec", b"s" * 200)
        key = f"{self._round}-{name}"
        return NewTask(queue, "payload", spec, key=key, on_conflict=OnConflict.RETURN, **more)

    async def _submit(self) -> None:
        touched = self._new("touched", self._work, renewal=Renewal.TOUCH, ttr=LONG)
        plain = [self._new(f"plain{n}", self._work) for n in range(5)]
        large = self._new("large", self._work, spec=b"L" * 3_000, delay=400)
        family = (
            self._new("parent", self._graph),
            self._new("child", self._graph, parents=(Edge(-1),)),
            self._new("other", self._graph, parents=(Edge(-1, On.FAILED),)),
            self._new("join", self._graph, parents=(Edge(-2), Edge(-1, On.FINISHED))),
        )
        group = self._new("group", self._graph)._replace(kind="group")
        members = [self._new(f"member{n}", self._graph, group=-1) for n in range(2)]
        act = Act("chaos", "submit", f'"group of round {self._round}"')
        await asyncio.gather(
            self._submit_all(Submission((touched, *plain, large))),
            self._submit_all(Submission(family)),
            self._submit_all(Submission((group, *members), act=act)),
        )
        self._fact("audited", "SELECT count(*) > 0 FROM audit WHERE detail = ?", (act.detail,), (1,))

    async def _submit_all(self, submission: Submission) -> None:
        done: Submitted = await self._do(lambda: self._store.submit(submission))
        for task, number in zip(submission.tasks, done.ids, strict=True):
            self._fact("submitted", _SUBMITTED, (task.key,), (number, len(task.spec)))
        for child, task in zip(done.ids, submission.tasks, strict=True):
            for edge in task.parents:
                row = (done.ids[-edge.parent - 1], child)
                self._fact("edge", "SELECT asks FROM edge WHERE parent = ? AND child = ?", row, (edge.on,))

    async def _claim(self) -> list[Claimed]:
        """Six of the work, and whatever of the graph is ready, by two claims at once."""
        claims = [Claim(self._node, (self._work,), 6), Claim(self._node, (self._graph,), 3, start=True)]
        answers = await asyncio.gather(*(self._take(claim) for claim in claims))
        return [one for exchanged in answers for one in exchanged.claimed]

    async def _take(self, claim: Claim) -> Exchanged:
        done: Exchanged = await self._do(lambda: self._store.exchange(Exchange(claim=claim)))
        for one in done.claimed:
            self._fact("claimed", "SELECT fence >= ? FROM task WHERE id = ?", (one.fence, one.id), (1,))
        return done

    async def _speak(self, claimed: list[Claimed]) -> None:
        await asyncio.gather(
            self._start([one for one in claimed if one.status < 0][:4]),
            self._note(claimed),
            self._ask(
                lambda: self._store.configure(
                    Configure(node=NodeChange(id=self._node, token=f"token of {self._steady}", beat=True))
                )
            ),
        )

    async def _start(self, claimed: list[Claimed]) -> None:
        await self._move([move(one.id, "start", one.fence) for one in claimed])
        for one in claimed:
            self._fact("started", _STARTED, (one.id, one.fence), (1,))

    async def _note(self, claimed: list[Claimed]) -> None:
        notes = [note for one in claimed for note in self._notes(one)]
        await self._ask(lambda: self._store.write(tuple(notes)))
        for one in claimed:
            self._fact("progress", "SELECT percent >= ? FROM task WHERE id = ?", (self._round, one.id), (1,))
            self._fact("datum", "SELECT value FROM data WHERE task = ? AND key = ?", (one.id, self._name), (b"d" * 90,))
            values = (one.id, one.fence)
            self._fact("chunk", "SELECT body FROM output WHERE task = ? AND fence = ?", values, (b"o" * 700,))

    @property
    def _name(self) -> str:
        return f"datum{self._round}"

    def _notes(self, one: Claimed) -> list[Note]:
        return [
            Note(one.id, one.fence, touch=Touch(LONG)),
            Note(one.id, one.fence, progress=Progress(float(self._round), "so far")),
            Note(one.id, one.fence, datum=Datum(self._name, b"d" * 90)),
            Note(one.id, one.fence, chunk=Chunk("out", 0, b"o" * 700)),
        ]

    async def _move(self, moves: list[Move]) -> None:
        await self._ask(lambda: self._store.exchange(Exchange(tuple(moves))))

    async def _settle(self, claimed: list[Claimed]) -> None:
        """Each of the claimed ends in another way; one of them with the next claim in the same step."""
        work = [one for one in claimed if one.queue == self._work]
        first, *others = [self._end(one, place) for place, one in enumerate(work)]
        graph = [move(one.id, "succeed", one.fence) for one in claimed if one.queue == self._graph]
        exchange = Exchange((first,), Claim(self._node, (self._graph,), 5, start=True))
        answers = await asyncio.gather(
            self._ask(lambda: self._store.exchange(exchange)), self._move(others), self._move(graph)
        )
        for one in (first, *others, *graph):
            self._fact(f"after {one.rule}", *_after(one))
        await self._succeed(answers[0].claimed if answers[0] is not None else [])

    def _end(self, one: Claimed, place: int) -> Move:
        later = self._clock.wall() + 700
        ways = (
            move(one.id, "succeed", one.fence)._replace(result=b"r" * 150),
            move(one.id, "fail", one.fence, 7)._replace(reason="it broke"),
            move(one.id, "retry_later", one.fence)._replace(due=later),
            move(one.id, "release", one.fence),
            move(one.id, "bury", one.fence)._replace(reason="look at it"),
            move(one.id, "terminate", one.fence),
        )
        return ways[place % len(ways)]

    async def _succeed(self, claimed: list[Claimed]) -> None:
        moves = [move(one.id, "succeed", one.fence) for one in claimed]
        await self._move(moves)
        for one in moves:
            self._fact("settled", *_after(one))

    async def _operate(self) -> None:
        """An operator edits, links, pauses, cancels and kicks."""
        ids = await self._ids("edited", "linked", "dropped", "cancelled")
        act = Act("chaos", "edit", f'"edits of round {self._round}"')
        text = f"edited in round {self._round}"
        edits = Edits(
            (Edit(ids[0], change=Change(description=text)), Edit(ids[1], link=(ids[0], On.FINISHED))), act=act
        )
        pause = Configure(queue=QueueChange(self._graph, paused_until=Wall(self._clock.wall() + 1)))
        await asyncio.gather(
            self._ask(lambda: self._store.edit(edits)),
            self._ask(lambda: self._store.edit(Edits((Edit(ids[2], remove=True),)))),
            self._ask(lambda: self._store.configure(pause)),
            self._move([move(ids[3], "cancel")]),
        )
        self._fact("edited", "SELECT description FROM task WHERE id = ?", (ids[0],), (text,))
        self._fact("linked", "SELECT asks FROM edge WHERE parent = ? AND child = ?", (ids[0], ids[1]), (On.FINISHED,))
        self._fact("removed", "SELECT count(*) FROM task WHERE id = ?", (ids[2],), (0,))
        self._fact("cancelled", "SELECT status FROM task WHERE id = ?", (ids[3],), (-5,))
        self._fact("audited", "SELECT count(*) > 0 FROM audit WHERE detail = ?", (act.detail,), (1,))

    async def _ids(self, *names: str) -> list[TaskId]:
        # Held back for long: nobody but the operator touches them.
        tasks = tuple(self._new(name, self._graph, delay=LONG) for name in names)
        done: Submitted = await self._do(lambda: self._store.submit(Submission(tasks)))
        return done.ids

    async def _lapse(self) -> None:
        """A node that claims and is never heard of again loses its task."""
        node = await self._register(f"fragile{self._round}", FRAGILE)
        taken = await self._take(Claim(node, (self._work,), 1, start=True))
        self._clock.advance(FRAGILE)
        tended = await self._do(lambda: self._store.tend(Tend(lapse=True)))
        await self._move([loss_of(one) for one in tended.lapsed])
        for one in taken.claimed:
            self._fact("lost", "SELECT fence > ?, timeouts > 0 FROM task WHERE id = ?", (one.fence, one.id), (1, 1))
        self._fact("node lost", "SELECT state FROM node WHERE id = ?", (node,), ("lost",))

    async def _read(self) -> None:
        """A reader looks at a page, at the counts, and at all of one task."""
        page = await self._do(lambda: self._store.find(Query(queue=self._graph, newest_first=True, most=20)))
        await self._do(self._store.counts)
        await self._do(lambda: self._store.look(page.tasks[0].id))

    async def _tend(self) -> None:
        self._clock.advance(2_000)
        await self._ask(lambda: self._store.tend(Tend(promote=True)))
        await self._ask(lambda: self._store.tend(Tend(release=True)))
        await self._ask(lambda: self._store.tend(Tend(trim_output=60_000)))
        kept = self._round - KEPT_ROUNDS
        if kept in self._starts:
            self._tell(Retired(kept))
            await self._ask(lambda: self._store.tend(Tend(prune_before=Wall(self._starts[kept]))))


def _after(one: Move) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
    """What the file must say of a move for ever: a final status as it is, anything else by what it counted."""
    if one.rule in ("succeed", "fail", "terminate"):
        return "SELECT status FROM task WHERE id = ?", (one.task,), (one.target,)
    return "SELECT outcome FROM attempt WHERE task = ? AND fence = ?", (one.task, one.fence), (one.rule,)
