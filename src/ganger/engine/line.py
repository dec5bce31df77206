"""The line: those who wait for work stand in it, and are served in the order in which they came.

The danger is a crowd. A thousand holders wait for one queue, one task comes, and a thousand questions are put to the
store to hand it out. So those to whom the same tasks are open form a *party* (the same queues, and nodes alike in
kinds, labels and whatever else decides about a lane). When a queue is told to have something, the eldest of each party
that waits for it asks; while the askers get something twice as many ask at once, in the order of the line; when they
get nothing the party is *barren*, and nobody of it asks again before the next wake-up, a due time, or a change of the
queues.

One empty answer does not speak for all: a task may keep clear of just that node. It keeps clear of one at most, so two
different nodes that get nothing do speak for all. An answer that was cut short by a limit speaks for all only if no
limit is counted per node.

What a wake-up may not do is get lost between the look and the wait. A party listens before it looks and counts its
wake-ups; an empty answer that was asked for before the last wake-up counts for nothing.

Tasks may come one by one in a stream, and each would be a question of its own, with a commit of its own. If one came
while the last question was out, and that got only few, the next is held back for five milliseconds, and takes what
came meanwhile. Whoever waits for one task after the other is not slowed down by it: nothing comes while that one is
being handed out.

Whoever waits for one task after the other waits for two commits each time: the one that brings the task, and the one
that claims it. A store may take the question of a party beforehand and answer it in the commit that brings something.
So when nobody has anything to ask, the eldest of each party *attends*: its question is left with the store. Nothing
relies on it. The wake-up comes all the same, and whoever asks takes the question back first; if it is too late for
that, the answer is handed out, or given back if nobody waits any more. Who is *eager* hears of the answer on the
store's own thread and may begin at once; what it has begun it keeps, even if it waits no more.

Those who are cut off by a limit are woken by the queue when a lease of it ends. A limit may also be freed from
elsewhere (the slots of a node are shared by all queues), so they look again at most once a second while anything
happens at all. A task that keeps clear of a node is open to it when no other takes the queue, so all look when
the nodes change.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from itertools import count
from typing import Final

from ganger.core.clock import Clock
from ganger.core.errors import StoreError
from ganger.core.task import Claimed, Eager
from ganger.engine.claim import Desk
from ganger.engine.nodes import Nodes
from ganger.engine.party import Party, Question, Waiter
from ganger.engine.queues import Queues
from ganger.engine.store import (
    EVENTS_TOPIC,
    NODES_TOPIC,
    QUEUE_TOPIC,
    QUEUES_TOPIC,
    RESET_TOPIC,
    Attentive,
    Claim,
    Exchange,
    Exchanged,
    Store,
)

IDLE_PARTIES: Final = 1_024
"""So many parties without anybody in them keep listening, so that who comes back need not begin anew."""

GATHER: Final = 0.005
"""Seconds for which a party holds its question back while tasks come in a stream, to take several at once."""

FEW: Final = 32
"""Who got so many is not held back: they do not come one by one."""

SECOND_LOOK: Final = 1.0
SHORTEST_NAP: Final = 0.005
LONGEST_NAP: Final = 30.0
"""A due time is of the wall clock, which may jump: no timer runs longer without a look at it."""


class Line:
    """The line of one engine."""

    def __init__(self, store: Store, clock: Clock, desk: Desk, queues: Queues, nodes: Nodes) -> None:
        self._store, self._clock, self._desk, self._queues, self._nodes = store, clock, desk, queues, nodes
        self._parties: dict[Hashable, Party] = {}
        self._idle: OrderedDict[Hashable, Party] = OrderedDict()
        self._listeners: dict[str, set[Party]] = {}
        self._unlisten: dict[str, Callable[[], None]] = {}
        self._tickets = count()
        self._serving: asyncio.Task[None] | None = None
        self._stale = False
        self._alarm: asyncio.TimerHandle | None = None
        self._second_look: asyncio.TimerHandle | None = None
        self._attentive = store if isinstance(store, Attentive) else None
        for topic in (QUEUES_TOPIC, NODES_TOPIC, RESET_TOPIC):
            self._hear(topic)

    async def wait(self, claim: Claim, timeout: float | None, eager: Eager | None = None) -> list[Claimed]:
        """What the claim gets, as soon as it gets something; nothing when the time (seconds) is up."""
        await self._queues.all()
        waiter = Waiter(next(self._tickets), claim, eager)
        party = self._enter(waiter)
        self._serve_soon([party])
        if self._serving is None:
            self._leave_questions()
        if party.due is not None and not party.looking:
            self._set_alarm()
        timer = None if timeout is None else asyncio.get_running_loop().call_later(timeout, waiter.expire)
        try:
            return await waiter.answer
        except asyncio.CancelledError:
            self._return(waiter)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._leave(waiter)

    def close(self) -> None:
        """Send everybody away with nothing, and listen no more."""
        for party in self._parties.values():
            party.take_back()
            for waiter in party.waiters.values():
                waiter.expire()
        for topic in list(self._unlisten):
            self._ignore(topic)
        for timer in (self._alarm, self._second_look):
            if timer is not None:
                timer.cancel()

    def _return(self, waiter: Waiter) -> None:
        """The answer came, but the one who waited was cancelled before it could take it."""
        if waiter.answer.done() and not waiter.answer.cancelled() and waiter.answer.exception() is None:
            self._give_back(waiter, waiter.answer.result())

    def _give_back(self, waiter: Waiter, claimed: list[Claimed]) -> None:
        if not waiter.keeps(claimed):
            self._desk.give_back(claimed)

    def _enter(self, waiter: Waiter) -> Party:
        key, personal = self._kin(waiter.claim)
        party = self._parties.get(key)
        if party is None:
            topics = tuple(QUEUE_TOPIC.format(queue) for queue in waiter.claim.queues)
            party = self._parties[key] = Party(key, topics, personal)
            for topic in topics:
                self._hear(topic).add(party)
        self._idle.pop(key, None)
        party.enter(waiter, self._clock.wall())
        return party

    def _kin(self, claim: Claim) -> tuple[Hashable, bool]:
        """What decides which tasks are open to a claim, and whether a limit on it is counted per node."""
        node = self._nodes.peek(claim.holder)
        policies = [queue.policy for id in claim.queues if (queue := self._queues.peek(id)) is not None]
        if node is None or len(policies) < len(claim.queues):
            return (claim.queues, claim.holder), True
        name = node.name if any(policy.pin or policy.ignore for policy in policies) else None
        personal = node.slots is not None or any(policy.max_per_node is not None for policy in policies)
        return (claim.queues, node.kinds, node.labels, node.queues, name, personal), personal

    def _leave(self, waiter: Waiter) -> None:
        party = waiter.party
        if party is None:
            return
        party.leave(waiter)
        party.take_back(waiter)
        if not party.waiters and self._parties.get(party.key) is party:
            self._idle[party.key] = party
        while len(self._idle) > IDLE_PARTIES:
            self._dismiss(self._idle.popitem(last=False)[1])

    def _dismiss(self, party: Party) -> None:
        party.take_back()
        del self._parties[party.key]
        for topic in party.topics:
            self._listeners[topic].discard(party)
            if not self._listeners[topic]:
                self._ignore(topic)

    def _hear(self, topic: str) -> set[Party]:
        if topic not in self._unlisten:
            self._listeners[topic] = set()
            self._unlisten[topic] = self._store.listen((topic,), self._told)
        return self._listeners[topic]

    def _ignore(self, topic: str) -> None:
        self._listeners.pop(topic, None)
        self._unlisten.pop(topic)()

    def _told(self, topic: str) -> None:
        if topic in (QUEUES_TOPIC, RESET_TOPIC):
            self._stale = True
        elif topic == EVENTS_TOPIC:
            if self._second_look is None:
                self._second_look = asyncio.get_running_loop().call_later(SECOND_LOOK, self._look_again)
            return
        self._wake(list(self._parties.values()) if topic == NODES_TOPIC else self._listeners.get(topic, ()))

    def _look_again(self) -> None:
        """Those at a limit look once more: something happened somewhere."""
        self._second_look = None
        self._wake([party for party in self._parties.values() if party.limited])

    def _wake(self, parties: Collection[Party]) -> None:
        for party in parties:
            party.wake()
        self._serve_soon(parties)

    def _serve_soon(self, parties: Collection[Party]) -> None:
        crowd = self._parties.values() if self._stale else parties
        if self._serving is None and any(party.looking or (self._stale and party.waiters) for party in crowd):
            self._serving = asyncio.ensure_future(self._serve())

    async def _serve(self) -> None:
        """Let the parties ask, round by round, until nobody has anything to ask."""
        try:
            while True:
                if self._stale:
                    await self._regroup()
                if not (asking := self._askers()):
                    break
                if any(waiter.party is not None and waiter.party.streaming for waiter in asking):
                    await asyncio.sleep(GATHER)
                    asking = self._askers()
                if asking:
                    await self._ask(asking)
        except Exception as error:
            self._send_away(error)
        finally:
            self._serving = None
        self._set_alarm()
        self._leave_questions()

    def _leave_questions(self) -> None:
        """The eldest of each party leaves its question with the store, if that takes some."""
        if self._attentive is None:
            return
        for party in self._parties.values():
            if party.question is None and not party.streaming and (waiter := party.eldest()) is not None:
                number = next(self._tickets)
                told = partial(self._take_answer, party, waiter, number)
                take_back = self._attentive.attend(Exchange(claim=waiter.claim), party.topics, told, waiter.eager)
                party.question = Question(number, waiter, take_back)

    def _take_answer(self, party: Party, waiter: Waiter, number: int, reply: Exchanged | None) -> None:
        """A question that was left was answered. One that failed is asked again by whoever is woken."""
        if party.question is not None and party.question.number == number:
            party.question = None
        if reply is not None and reply.claimed:
            # Meanwhile everybody may have been put in line anew.
            self._hand_out(waiter.party or party, waiter, reply)

    async def _regroup(self) -> None:
        """The queues changed, or a wake-up may have been lost: everybody stands in line anew, in the old order."""
        self._stale = False
        await self._queues.all()
        waiters = sorted(self._waiters(), key=lambda waiter: waiter.ticket)
        for party in list(self._parties.values()):
            self._dismiss(party)
        self._idle.clear()
        for waiter in waiters:
            self._enter(waiter)

    def _waiters(self) -> list[Waiter]:
        return [waiter for party in self._parties.values() for waiter in party.waiters.values()]

    def _askers(self) -> list[Waiter]:
        askers = [waiter for party in self._parties.values() if party.looking for waiter in party.askers()]
        askers.sort(key=lambda waiter: waiter.ticket)
        return askers

    async def _ask(self, askers: Sequence[Waiter]) -> None:
        asked = [(waiter, waiter.party, waiter.party.wakes) for waiter in askers if waiter.party is not None]
        for waiter, party, _ in asked:
            waiter.asking = True
            party.take_back()
        replies = await self._put([Exchange(claim=waiter.claim) for waiter in askers])
        for (waiter, party, wakes), reply in zip(asked, replies, strict=True):
            waiter.asking = False
            few = isinstance(reply, BaseException) or len(reply.claimed) < min(FEW, waiter.claim.most)
            party.streaming = few and waiter.claim.most > 1 and party.wakes != wakes
            if isinstance(reply, BaseException):
                self._refuse(party, waiter, reply)
            elif reply.claimed:
                self._hand_out(party, waiter, reply)
                if len(reply.claimed) < waiter.claim.most:
                    party.got_the_rest(waiter.claim.holder, reply, wakes)
            else:
                party.got_nothing(waiter.claim.holder, reply, wakes)
                if waiter.late:
                    waiter.expire()

    async def _put(self, questions: Sequence[Exchange]) -> Sequence[Exchanged | BaseException]:
        if len(questions) > 1:
            return await asyncio.gather(*map(self._store.exchange, questions), return_exceptions=True)
        try:
            return [await self._store.exchange(questions[0])]
        except Exception as error:
            return [error]

    def _hand_out(self, party: Party, waiter: Waiter, reply: Exchanged) -> None:
        party.served()
        party.leave(waiter)
        if waiter.answer.done():
            self._give_back(waiter, reply.claimed)
        else:
            waiter.answer.set_result(reply.claimed)

    def _refuse(self, party: Party, waiter: Waiter, error: BaseException) -> None:
        """A store that cannot serve one cannot serve the others; any other error is the asker's own."""
        refused = list(party.waiters.values()) if isinstance(error, StoreError) else [waiter]
        for one in refused:
            party.leave(one)
            if not one.answer.done():
                one.answer.set_exception(error)

    def _send_away(self, error: Exception) -> None:
        for waiter in self._waiters():
            if not waiter.answer.done():
                waiter.answer.set_exception(error)

    def _set_alarm(self) -> None:
        """Wake up at the next due time, and attend to all that happens while somebody stands at a limit."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting = [party for party in self._parties.values() if party.waiters]
        due = min((party.due for party in waiting if party.due is not None), default=None)
        if due is not None:
            nap = min(max((due - self._clock.wall()) / 1000, SHORTEST_NAP), LONGEST_NAP)
            self._alarm = asyncio.get_running_loop().call_later(nap, self._ring)
        if any(party.limited for party in waiting):
            self._hear(EVENTS_TOPIC)
        elif EVENTS_TOPIC in self._unlisten:
            self._ignore(EVENTS_TOPIC)

    def _ring(self) -> None:
        wall = self._clock.wall()
        self._wake([party for party in self._parties.values() if party.due is not None and party.due <= wall])
        self._set_alarm()
