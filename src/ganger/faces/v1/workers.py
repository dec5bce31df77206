"""Nodes that work from afar: they register, beat, take, report and leave by these addresses, as others do in process.

What can go wrong, and why this is right:

- *Somebody speaks for a node that is not his.* A node's number can be guessed, so each request names the secret of its
  registration too. It is remembered as a hash; one that is not (the server is new) is tried by a beat.
- *Somebody writes for an attempt that is not his.* Fences can be guessed as well. So before a lease is believed, the
  task must be in the hands of that very node; the fence itself is judged by the store, in the step that writes.
- *A node says what became of its tasks, and lies about their history.* What decides on another attempt is read here,
  and never taken from the node.
- *A node stops waiting for work.* If it hung up, what was claimed for it at that moment would be lost on the way. So it
  has its wait woken, hears the answer, and gives back what it brings.
- *The answer to a claim is lost.* The node does not know what it has. It asks what it holds after such a failure, and
  gives back what it does not know.
- *The server restarts.* Nothing of a node is kept here but the hashes: the next request finds all as it was, as long as
  the leases last.
"""

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, NotAllowed, NotAuthenticated, StaleLease
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.outcome import Outcome
from ganger.core.state import Verdict
from ganger.core.task import Claimed, Task
from ganger.engine.settle import Settled
from ganger.engine.store import Claim, Configured, Note
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import NO_CONTENT, Answer, Reply, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.engine_reads import read_body, read_wait
from ganger.wire.v1 import remote
from ganger.wire.v1.words import read_id

Sign = Callable[[TaskId, Fence, str], str]
"""Makes the token of an attempt, for a node that works by the token with this id."""
DATA_PARAMETERS: Final = frozenset({"task", "fence", "name"})
_KNOWN: Final = 10_000
_NOTES: Final = 10_000
_NOBODY: Final = NodeId(0)


class Workers:
    """The endpoints under `/v1/workers` that a node uses."""

    def __init__(self, backend: Backend, clock: Clock, sign: Sign) -> None:
        self._engine = backend.engine
        self._clock = clock
        self._sign = sign
        self._secrets: OrderedDict[NodeId, bytes] = OrderedDict()
        self._waits: dict[NodeId, set[asyncio.Timeout]] = {}

    async def register(self, request: Request) -> Answer:
        """Join, or join again with the same secret."""
        said = await read_body(request, Registration)
        if said.queues is None:
            request.grant.demand(Need.WORK)
        for name in said.queues or ():
            request.grant.demand(Need.WORK, name)
        node = await self._engine.nodes.register(said)
        self._remember(node.id, said.token)
        return answer_json(Configured(node=node))

    async def beat(self, request: Request) -> Answer:
        """Renew every lease of the node, and hear what it is to kill."""
        node, given = _read_node(request), await read_body(request, remote.BeatIn)
        beaten = await self._engine.nodes.beat(node, _read_secret(request), given.lease, given.vitals)
        self._remember(node, _read_secret(request))
        return answer_json(Configured(None, beaten.node, tuple(beaten.kills), tuple(beaten.followed)))

    async def leave(self, request: Request) -> Answer:
        """Go in order: what it still holds goes back."""
        node = _read_node(request)
        await self._engine.nodes.leave(node, _read_secret(request))
        self._secrets.pop(node, None)
        return Reply(NO_CONTENT)

    async def take(self, request: Request) -> Answer:
        """Settle and claim in one step; with `wait` claim as soon as there is something."""
        node, given = await self._admit(request), await read_body(request, remote.TakeIn)
        claim = None if given.claim is None else await self._read_claim(node, given.claim, request.grant)
        if "wait" in request.query:
            if given.settle or claim is None:
                raise BadInput("a claim alone can wait; settle without wait", field="wait")
            return self._tell(Settled([], await self._wait(node, claim, read_wait(request))), request.grant)
        return self._tell(await self._settle(node, given.settle, claim), request.grant)

    async def _wait(self, node: NodeId, claim: Claim, seconds: float) -> list[Claimed]:
        """What there is, as soon as there is something; nothing when the time is up, or when it is woken."""
        waits = self._waits.setdefault(node, set())
        try:
            async with asyncio.timeout(seconds) as wait:
                waits.add(wait)
                return await self._engine.wait_claim(claim)
        except TimeoutError:
            return []
        finally:
            waits.discard(wait)
            if not waits:
                self._waits.pop(node, None)

    async def wake(self, request: Request) -> Answer:
        """Answer the requests of the node that wait for work: it wants to ask otherwise."""
        node = await self._admit(request)
        for wait in self._waits.get(node, ()):
            wait.reschedule(asyncio.get_running_loop().time())
        return Reply(NO_CONTENT)

    async def _read_claim(self, node: NodeId, given: remote.ClaimIn, grant: Grant) -> Claim:
        """The claim, of those queues alone that the token works for."""
        named = {queue.id: queue.name for queue in await self._engine.queues.all()}
        queues = tuple(QueueId(one) for one in given.queues if _may_work(grant, named.get(QueueId(one))))
        if given.queues and not queues:
            raise NotAllowed("the token works for none of these queues", scope=Need.WORK.value)
        tasks = await self._engine.tasks([TaskId(one) for one in given.ids]) if given.ids else []
        ids = tuple(task.id for task in tasks if task is not None and _may_work(grant, named.get(task.queue)))
        return Claim(node, queues, given.most, ids, given.start, given.length)

    async def _settle(self, node: NodeId, given: Sequence[remote.SettleIn], claim: Claim | None) -> Settled:
        ours = await self._find_ours(node, [(one.task, one.fence) for one in given])
        retries = {queue.id: queue.policy.retry for queue in await self._engine.queues.all()} if ours else {}
        items = [(_rebuild(ours[place], retries), _judge(given[place])) for place in sorted(ours)]
        settled = await self._engine.settle(items, claim)
        places = sorted(ours)
        refused = [(places[index], verdict) for index, verdict in settled.refused]
        refused += [(place, Verdict.STALE.value) for place in range(len(given)) if place not in ours]
        return settled._replace(refused=sorted(refused))

    def _tell(self, settled: Settled, grant: Grant) -> Answer:
        tokens = [self._sign(one.id, one.fence, grant.id) for one in settled.claimed]
        due, now = settled.next_due, self._clock.now()
        return answer_json(
            remote.TakenOut(list(settled.refused), list(settled.claimed), tokens, due, settled.waiting, now)
        )

    async def start(self, request: Request) -> Answer:
        """These run now; answers the refused by index and verdict."""
        node, given = await self._admit(request), await read_body(request, remote.LeasesIn)
        ours = await self._find_ours(node, given.leases)
        leases = [_lease(ours[place]) for place in sorted(ours)]
        return answer_json(_spread(given.leases, ours, await self._engine.start(leases)))

    async def renew(self, request: Request) -> Answer:
        """More time for leases that have an end of their own."""
        node, given = await self._admit(request), await read_body(request, remote.LeasesIn)
        ours = await self._find_ours(node, given.leases)
        leases = [_lease(ours[place]) for place in sorted(ours)]
        refused = _spread(given.leases, ours, await self._engine.renew(leases, given.length))
        again, now = await self._find_ours(node, given.leases), self._clock.now()
        left = [
            None if place not in again or (until := again[place].until) is None else max(0, until - now)
            for place in range(len(given.leases))
        ]
        return answer_json(remote.RenewedOut(refused, left))

    async def write(self, request: Request) -> Answer:
        """What attempts say while they run: progress, output, values; answers the refused by index and verdict."""
        node, notes = await self._admit(request), await read_body(request, list[Note])
        if len(notes) > _NOTES:
            raise BadInput(f"{len(notes)} notes are too many at once; send at most {_NOTES}")
        ours = await self._find_ours(node, [(note.task, note.fence) for note in notes])
        verdicts = await asyncio.gather(*(self._note(ours.get(place), note) for place, note in enumerate(notes)))
        return answer_json([(place, verdict) for place, verdict in enumerate(verdicts) if verdict is not None])

    async def _note(self, task: Task | None, note: Note) -> str | None:
        if task is None:
            return Verdict.STALE.value
        try:
            await self._write_one(_lease(task), note)
        except StaleLease:
            return Verdict.STALE.value
        return None

    async def _write_one(self, lease: Lease, note: Note) -> None:
        if note.progress is not None:
            await self._engine.progress(lease, note.progress.percent, note.progress.info)
        elif note.chunk is not None and note.chunk.blob is None:
            await self._engine.append_output(lease, note.chunk.stream, note.chunk.start, note.chunk.body)
        elif note.datum is not None and note.datum.value is not None:
            once = note.datum.only_if_unset
            await self._engine.put_data(lease, note.datum.key, note.datum.value, only_if_unset=once)
        else:
            raise BadInput("a note has progress, a chunk or a datum, with its bytes", field="notes")

    async def put_data(self, request: Request) -> Answer:
        """A large value of an attempt: the body as it is."""
        node, asked = await self._admit(request), request.query
        if missing := sorted(DATA_PARAMETERS - asked.keys()):
            raise BadInput(f"the parameter {missing[0]} is missing", field=missing[0])
        named = (read_id(asked["task"], "task"), int(read_id(asked["fence"], "fence")))
        ours = await self._find_ours(node, [named])
        if not ours:
            raise StaleLease(f"node {node} does not hold task {named[0]} with fence {named[1]}", task=named[0])
        await self._engine.put_data(_lease(ours[0]), asked["name"], await request.body())
        return Reply(NO_CONTENT)

    async def _find_ours(self, node: NodeId, leases: Sequence[tuple[int, int]]) -> dict[int, Task]:
        """The tasks that this node holds with these fences, by their place in the list."""
        found = await self._engine.tasks([TaskId(task) for task, _ in leases]) if leases else []
        return {
            place: task
            for place, (task, (_, fence)) in enumerate(zip(found, leases, strict=True))
            if task is not None and task.holder == node and task.fence == fence
        }

    async def _admit(self, request: Request) -> NodeId:
        """The node that speaks, if it names its secret. NodeGone if its registration has ended."""
        node, secret = _read_node(request), _read_secret(request)
        known = self._secrets.get(node)
        if known is None:
            await self._engine.nodes.beat(node, secret)
            self._remember(node, secret)
        elif not hmac.compare_digest(known, _hash(secret)):
            raise NotAuthenticated(f"this is not the secret with which node {node} registered", node=node)
        return node

    def _remember(self, node: NodeId, secret: str) -> None:
        self._secrets[node] = _hash(secret)
        self._secrets.move_to_end(node)
        while len(self._secrets) > _KNOWN:
            self._secrets.popitem(last=False)


def _read_node(request: Request) -> NodeId:
    return NodeId(int(read_id(request.values["id"])))


def _read_secret(request: Request) -> str:
    secret = request.headers.get(remote.NODE_HEADER.encode(), b"").decode("latin-1")
    if not (secret and secret.isascii()):
        raise BadInput(f"send the secret of the node's registration in the header {remote.NODE_HEADER}")
    return secret


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _may_work(grant: Grant, queue: str | None) -> bool:
    if queue is None:
        return False
    try:
        grant.demand(Need.WORK, queue)
    except NotAllowed:
        return False
    return True


def _judge(said: remote.SettleIn) -> Outcome:
    return remote.read_outcome(said.outcome)


def _lease(task: Task) -> Lease:
    return Lease(task.id, task.fence, task.holder or _NOBODY, task.until)


def _rebuild(task: Task, retries: Mapping[QueueId, str]) -> Claimed:
    """The task as its holder was given it, from what is stored."""
    return Claimed(
        task.id, task.queue, task.kind, None, task.fence, task.holder or _NOBODY, task.until, task.priority,
        task.attempts, task.crashes, task.retry or retries.get(task.queue, ""), task.timeout, task.status,
    )  # fmt: skip


def _spread(
    leases: Sequence[object], ours: Mapping[int, Task], refused: Sequence[tuple[int, str]]
) -> list[tuple[int, str]]:
    """The refused by their places in all that were named: those that are not ours are stale."""
    places = sorted(ours)
    told = [(places[index], str(verdict)) for index, verdict in refused]
    return sorted(told + [(place, Verdict.STALE.value) for place in range(len(leases)) if place not in ours])
