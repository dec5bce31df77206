"""The engine at the other end of a link: the same operations under the same terms, wherever it is.

What the engine only passes on to its store it does here too, over a `RemoteStore`. What it decides, waits for or
watches is asked of the engine over there in one request, because many small ones would be slow, and because nobody
believes a client's decisions. A wait is many short waits at the server, so it outlives the server's restart.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from ganger.assembly.remote.link import Link
from ganger.assembly.remote.queues import RemoteQueues
from ganger.assembly.remote.store import RemoteStore, refuse, split
from ganger.core.clock import Clock, Entropy, Moment, Wall
from ganger.core.errors import BadInput, GangerError, PayloadTooLarge, StoreUnavailable
from ganger.core.event import Event
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.outcome import Outcome, Release
from ganger.core.task import Claimed, Eager, NewTask
from ganger.engine import explain, family, live, paging
from ganger.engine.audit import Verified
from ganger.engine.blob import BlobRef
from ganger.engine.checks import OUTPUT
from ganger.engine.contents import Contents
from ganger.engine.engine import PLAIN_LIMITS, Engine
from ganger.engine.follow import EVERYTHING, Wanted, find_end, narrow
from ganger.engine.nodes import Nodes
from ganger.engine.obstacles import Reason
from ganger.engine.operate import Moved
from ganger.engine.output import Content, Places
from ganger.engine.readiness import Readiness
from ganger.engine.settle import Settled
from ganger.engine.store import Claim, Submitted
from ganger.engine.wait import Waited
from ganger.engine.walls import Elsewhere
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.v1 import remote
from ganger.wire.v1.shapes import WhyTold

LARGEST_VALUE: Final = 16 << 20
"""The largest value that is sent in one request, as the server's bound on bodies has it."""

_MARK: Final = 12
_ENVELOPE: Final = 100
_REST: Final = 0.2
_LINGER: Final = 10.0
"""Seconds in which an answer that nobody waits for any more may still come."""

_REFUSED = list[tuple[int, str]]


class RemoteEngine(Engine):
    """An engine behind a server. Close it at the end; the link stays open."""

    def __init__(self, link: Link, clock: Clock, entropy: Entropy, *, telemetry: Telemetry = SILENT) -> None:
        self._link = link
        self._far = RemoteStore(link, clock, lambda: entropy.token(_MARK).hex())
        self.store = self._far
        self.limits = PLAIN_LIMITS
        self.queues = RemoteQueues(self._far, clock)
        self.nodes = Nodes(self._far, self.limits)
        self._clock = clock
        self._witness = None
        self._walls = Elsewhere()
        self._places = Places(self._far, None, self.limits)
        self.contents = Contents(self._places)
        self._telemetry = telemetry
        self._returning: set[asyncio.Task[None]] = set()
        self.tokens: dict[tuple[TaskId, Fence], str] = {}

    async def close(self) -> None:
        while self._returning:
            await asyncio.wait(self._returning)
        await self._far.close()

    def pass_token(self, task: TaskId, fence: Fence) -> str:
        """The token that came with a claim, for the attempt that it belongs to; empty if it was passed on before."""
        return self.tokens.pop((task, fence), "")

    def post_now(self, tasks: Sequence[NewTask]) -> Callable[[], Submitted] | None:
        """A link belongs to its event loop."""
        return None

    async def claim(self, claim: Claim) -> list[Claimed]:
        return (await self.settle([], claim)).claimed

    async def wait_claim(self, claim: Claim, timeout: float | None = None, eager: Eager | None = None) -> list[Claimed]:
        """One wait at the server, which may end before the time is up."""
        if not claim.queues or claim.ids:
            raise BadInput("only a claim of queues can wait; ids are claimed at once or not", field="queues")
        wait = remote.LONGEST_WAIT if timeout is None else min(timeout, remote.LONGEST_WAIT)
        return (await self._take(claim.holder, remote.TakeIn([], _write_claim(claim)), wait)).claimed

    async def settle(self, items: Sequence[tuple[Claimed, Outcome]], claim: Claim | None = None) -> Settled:
        """In as many requests as it takes; the claim goes with the last."""
        holder = claim.holder if claim is not None else items[0][0].holder if items else NodeId(0)
        told = [remote.SettleIn(one.id, one.fence, remote.write_outcome(said)) for one, said in items]
        for one, _ in items:
            self.tokens.pop((one.id, one.fence), None)
        wanted, refused = None if claim is None else _write_claim(claim), []
        parts = list(split([_weigh(one.outcome) for one in told])) or [(0, 0)]
        for start, end in parts:
            given = remote.TakeIn(told[start:end], wanted if end == len(told) else None)
            settled = await self._take(holder, given, None)
            refused += [(start + index, verdict) for index, verdict in settled.refused]
        return settled._replace(refused=refused)

    async def _take(self, node: NodeId, given: remote.TakeIn, wait: float | None) -> Settled:
        """Outlives whoever asked: what comes for one who is gone is given back."""
        asking = asyncio.create_task(self._ask_for_work(node, given, wait))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._later(self._give_back(node, asking, is_waiting=wait is not None))
            raise

    def _later(self, returning: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(returning)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _give_back(self, node: NodeId, asking: "asyncio.Task[Settled]", *, is_waiting: bool) -> None:
        try:
            async with asyncio.timeout(_LINGER):
                if is_waiting:
                    await self._link.tell_only(f"/v1/workers/{node}/wake", headers=self._far.name_secret(node))
                if claimed := (await asking).claimed:
                    await self.settle([(one, Release()) for one in claimed])
        except (GangerError, TimeoutError) as error:
            # The node finds what it holds without knowing it, and gives that back.
            self._telemetry.event("claim_unanswered", error=name_fault(error))
        finally:
            asking.cancel()

    async def _ask_for_work(self, node: NodeId, given: remote.TakeIn, wait: float | None) -> Settled:
        asked, headers = self._clock.now(), self._far.name_secret(node)
        taken = await self._link.tell(f"/v1/workers/{node}/take", remote.TakenOut, given, headers=headers, wait=wait)
        for one, token in zip(taken.claimed, taken.tokens, strict=True):
            self.tokens[one.id, one.fence] = token
        claimed = [_reckon(one, asked - taken.now) for one in taken.claimed]
        return Settled(taken.refused, claimed, None if taken.next_due is None else Wall(taken.next_due), taken.waiting)

    async def settle_each(
        self, items: Sequence[tuple[Claimed, Outcome, Claim]], near: Callable[[], None] | None = None
    ) -> list[Settled | GangerError]:
        raise refuse("to settle for several holders at once")

    async def settle_leases(self, items: Sequence[tuple[Lease, Outcome]]) -> Settled:
        raise refuse("to settle by leases alone")

    async def settle_by_lease(self, lease: Lease, outcome: Outcome) -> None:
        raise refuse("to settle by a lease alone")

    async def release(self, lease: Lease, delay: int = 0, priority: int | None = None) -> None:
        raise refuse(f"to give back task {lease.task} by its lease alone")

    async def conclude(self, task: TaskId, branch: bool, failed: str | None = None) -> None:
        raise refuse("to judge a condition")

    async def start(self, leases: Sequence[Lease]) -> list[tuple[int, str]]:
        if not leases:
            return []
        node = leases[0].holder
        body = remote.LeasesIn([(one.task, one.fence) for one in leases])
        return await self._link.tell(f"/v1/workers/{node}/start", _REFUSED, body, headers=self._far.name_secret(node))

    async def renew(self, leases: Sequence[Lease], length: int | None = None) -> list[tuple[int, str]]:
        return (await self.touch(leases, length)).refused

    async def touch(self, leases: Sequence[Lease], length: int | None) -> remote.RenewedOut:
        """More time for touched leases, and how much each has left."""
        if not leases:
            return remote.RenewedOut([], [])
        node = leases[0].holder
        body = remote.LeasesIn([(one.task, one.fence) for one in leases], length)
        headers = self._far.name_secret(node)
        return await self._link.tell(f"/v1/workers/{node}/renew", remote.RenewedOut, body, headers=headers)

    async def put_data(
        self, writer: Lease | TaskId, key: str, content: Content, *, only_if_unset: bool = False
    ) -> None:
        """A holder's value may be as large as one request, an operator's as large as what a store keeps by itself."""
        if isinstance(content, BlobRef):
            raise refuse("to name a blob")
        body = content if isinstance(content, bytes) else await _collect(content)
        if not isinstance(writer, Lease) or only_if_unset:
            await super().put_data(writer, key, body, only_if_unset=only_if_unset)
        else:
            asked = {"task": str(writer.task), "fence": str(writer.fence), "name": key}
            address = f"/v1/workers/{writer.holder}/data"
            await self._link.put(address, asked, body, self._far.name_secret(writer.holder))

    async def read_page(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, version: str | None = None
    ) -> paging.DataPage:
        raise refuse("to read pages with versions")

    async def follow_output(
        self, task: TaskId, streams: Sequence[str] = live.SAID, start: int = 0, fence: Fence | None = None
    ) -> AsyncGenerator[live.Heard, None]:
        """Goes on behind what was seen if the connection breaks off."""
        seen: dict[tuple[Fence, str], int] = {}
        wanted = remote.OutputAsk(task, list(streams), start, fence)
        while True:
            try:
                async with aclosing(self._link.follow("/v1/engine/output", wanted)) as pieces:
                    async for piece in pieces:
                        if new := _skip(msgspec.json.decode(piece, type=live.Heard), seen):
                            yield new
                return
            except StoreUnavailable:
                # Patience is that of the next question; then what the last attempt said meanwhile comes first.
                await asyncio.sleep(_REST)
                await self.store.tasks([task])
            async for missed in self._catch_up(task, seen):
                yield missed

    async def _catch_up(self, task: TaskId, seen: dict[tuple[Fence, str], int]) -> AsyncGenerator[live.Heard, None]:
        """The rest of the last attempt that was read: there may be a newer one by now."""
        last = max((fence for fence, _ in seen), default=None)
        for fence, stream in [place for place in seen if place[0] == last]:
            while body := (await self.store.value(task, f"{OUTPUT}{stream}", seen[fence, stream], 1 << 20, fence)).body:
                seen[fence, stream] += len(body)
                yield live.Heard(fence, stream, seen[fence, stream] - len(body), body)

    async def hold(self, ids: Sequence[TaskId], *, by: str, reason: str | None = None) -> Moved:
        return await self._act(remote.ActIn("hold", _numbers(ids), reason))

    async def kick(self, ids: Sequence[TaskId], *, by: str) -> Moved:
        return await self._act(remote.ActIn("kick", _numbers(ids)))

    async def kick_queue(self, queue: QueueId, most: int, *, by: str) -> Moved:
        return await self._act(remote.ActIn("kick_queue", queue=queue, most=most))

    async def cancel(self, ids: Sequence[TaskId], *, by: str) -> Moved:
        return await self._act(remote.ActIn("cancel", _numbers(ids)))

    async def kill(self, ids: Sequence[TaskId], *, by: str) -> Moved:
        return await self._act(remote.ActIn("kill", _numbers(ids)))

    async def remove(self, task: TaskId, *, by: str, descendants: bool = False, kill: bool = False) -> None:
        await self._act(remote.ActIn("remove", [task], descendants=descendants, kill=kill))

    async def _act(self, given: remote.ActIn) -> Moved:
        return await self._link.tell("/v1/engine/acts", Moved, given)

    async def retry_final(self, task: TaskId, *, by: str) -> TaskId:
        return TaskId(await self._link.tell("/v1/engine/retry", int, remote.RetryIn(task)))

    async def wait(self, ids: Sequence[TaskId], timeout: float | None = None, *, until_held: bool = False) -> Waited:
        """Some ids at a time: all must have ended, so it does not matter which are waited for first."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        parts = [list(ids[at : at + remote.MOST_IDS]) for at in range(0, len(ids), remote.MOST_IDS)]
        before: list[Waited] = []
        while True:
            waited = [await self._wait_part(part, until, until_held=until_held) for part in parts]
            held = tuple(task for one in waited for task in one.held)
            if not held or len(parts) == 1 or waited == before or _is_over(until):
                break
            # What is held may have been kicked while others were waited for: it counts if it still is.
            before = waited
        statuses = [status for one in waited for status in one.statuses]
        return Waited(statuses, all(one.done for one in waited), held)

    async def _wait_part(self, ids: Sequence[TaskId], until: float | None, *, until_held: bool) -> Waited:
        loop = asyncio.get_running_loop()
        while True:
            left = remote.LONGEST_WAIT if until is None else max(0.0, until - loop.time())
            wait, asked = min(left, remote.LONGEST_WAIT), remote.WaitAsk(_numbers(ids), until_held)
            waited = await self._link.ask("/v1/engine/wait", Waited, asked, wait=wait)
            if waited.done or waited.held or _is_over(until):
                return waited

    async def family(self, lease: Lease, most: int = 100) -> family.Relatives:
        """With the token of that attempt alone."""
        if not self._link.speaks_for(lease.task, lease.fence):
            raise refuse("to read a family without the token of its attempt")
        return await self._link.ask("/v1/engine/family", family.Relatives, remote.LookAsk(lease.task, most))

    async def progress(self, lease: Lease, percent: float | None, info: str | None = None) -> None:
        """By the node that has the lease, or by the attempt itself with its token."""
        if self._link.speaks_for(lease.task, lease.fence):
            await self._link.tell_only("/v1/engine/progress", remote.ProgressIn(percent, info))
        else:
            await super().progress(lease, percent, info)

    async def explain(self, task: TaskId) -> explain.Why:
        told = await self._link.ask(f"/v1/nodes/{task}/why", WhyTold)
        return explain.Why(task, told.phase, [Reason(one.code, one.sentence, one.fields) for one in told.reasons])

    async def readiness(self, node: str | None = None) -> list[Readiness]:
        return await self._link.ask("/v1/engine/ready", list[Readiness], remote.ReadyAsk(node))

    async def subscribe(
        self, after: Position | None = None, wanted: Wanted = EVERYTHING
    ) -> AsyncGenerator[Event, None]:
        place = await find_end(self.store) if after is None else after
        while True:
            asked = remote.EventsAsk(place)
            for event in await self._link.ask("/v1/engine/events", list[Event], asked, wait=remote.LONGEST_WAIT):
                place = event.position
                if (seen := narrow(event, wanted)) is not None:
                    yield seen

    async def verify_audit(self) -> Verified:
        raise refuse("to check the audit log")


def _weigh(outcome: remote.OutcomeIn) -> int:
    return _ENVELOPE + len(outcome.result or b"") + len(outcome.reason or "")


def _is_over(until: float | None) -> bool:
    return until is not None and asyncio.get_running_loop().time() >= until


def _numbers(ids: Sequence[TaskId]) -> list[int]:
    return [int(one) for one in ids]


def _write_claim(claim: Claim) -> remote.ClaimIn:
    queues, ids = [int(one) for one in claim.queues], _numbers(claim.ids)
    return remote.ClaimIn(queues, claim.most, ids, claim.start, claim.length)


def _reckon(claimed: Claimed, shift: int) -> Claimed:
    """With its end by our own clock, counted from before we asked."""
    return claimed if claimed.until is None else claimed._replace(until=Moment(claimed.until + shift))


def _skip(heard: live.Heard, seen: dict[tuple[Fence, str], int]) -> live.Heard | None:
    """What of it is new; None if nothing is."""
    place = (heard.fence, heard.stream)
    known = max(0, seen.get(place, heard.start) - heard.start)
    seen[place] = max(seen.get(place, 0), heard.start + len(heard.body))
    return heard._replace(start=heard.start + known, body=heard.body[known:]) if known < len(heard.body) else None


async def _collect(content: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for piece in content:
        body += piece
        if len(body) > LARGEST_VALUE:
            raise PayloadTooLarge(f"over HTTP a value has at most {LARGEST_VALUE} bytes", limit=LARGEST_VALUE)
    return bytes(body)
