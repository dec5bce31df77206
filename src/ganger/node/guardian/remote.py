"""The guardian as the node sees it: one connection, made when it is needed and made again when it breaks.

What can go wrong, and why this is right:

- *The guardian was killed.* The connection breaks; a new guardian is started at once, which first ends what the old one
  left and then lists every attempt that it knows of. What the listing does not have was lost. No `ended` returns before
  that, so no slot is given back while anything might still run.
- *The answer to a start is lost with the connection.* The listing has the attempt, or it was never begun.
- *The guardian is stopped*, and keeps no lease and tells no end. It does not answer for twenty seconds, and is killed.
- *Another node took over.* Its epoch is higher, and every waiter here is told so. This node is not master again.
- *Orders given while there is no connection* (trust, stop, watch, forget) are kept and given to whoever answers next.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, assert_never

from ganger.core.clock import Entropy
from ganger.core.errors import FormatTooNew, GangerError, NodeGone, StoreUnavailable
from ganger.node.guardian.launch import Post, launch
from ganger.node.guardian.link import Link
from ganger.node.guardian.messages import (
    LOST,
    MASKS,
    QUEUES,
    End,
    Fault,
    Forget,
    FromGuardian,
    Grew,
    Hello,
    Key,
    Listing,
    Order,
    Pong,
    Refused,
    Shutdown,
    Start,
    Started,
    Stuck,
    Welcome,
)
from ganger.node.guardian.ward import Ward
from ganger.runtime.telemetry import SILENT, Telemetry

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 2.0
_PATIENCE: Final = 15.0
"""Seconds: so long a start waits for a guardian before it says that there is none."""


class Guardian:
    """One node's way to its guardian. Used from one event loop."""

    def __init__(
        self, post: Post, epoch: int, entropy: Entropy, telemetry: Telemetry = SILENT, *, beat: float = 5.0
    ) -> None:
        self.post = post
        self._epoch = epoch
        self._entropy = entropy
        self._telemetry = telemetry
        self._beat = beat
        self._link: Link | None = None
        self._pulse: asyncio.Task[None] | None = None
        self._joining: asyncio.Task[None] | None = None
        self._wards: dict[Key, Ward] = {}
        self._found: dict[Key, Ward] = {}
        self._has_adopted = False
        self._forgets: list[Key] = []
        self._out: list[Order] = []
        self._obstacle = "it is silent"
        self._end: GangerError | None = None

    async def start(self, order: Start) -> Ward:
        """Have it begun, as soon as there is room for it. StoreUnavailable: there is no guardian."""
        await self._reach()
        if order.masks and not self.can_mask:
            raise StoreUnavailable("the guardian is of an older version, which would show secrets: it ends when idle")
        ward = self._wards[order.key] = Ward(order.key, self, order.trusted_until)
        self.send(order)
        return ward

    @property
    def has_queue(self) -> bool:
        """Does it let orders wait for room? An older one begins at once what it is told."""
        return self._link is not None and self._link.protocol >= QUEUES

    @property
    def can_mask(self) -> bool:
        """Does it keep secrets out of what it writes?"""
        return self._link is not None and self._link.protocol >= MASKS

    async def adopt(self) -> Sequence[Ward]:
        """What runs, or ended unheard, and was not begun by us: in the order of its start."""
        if not await asyncio.to_thread(self._is_there):
            return []
        await self._reach()
        found, self._found = self._found, {}
        self._has_adopted = True
        self._wards |= found
        return sorted(found.values(), key=lambda ward: ward.serial)

    def _is_there(self) -> bool:
        """A guardian that ended in order with nothing to tell has taken its journal with it."""
        return (self.post.run / "journal").exists()

    async def close(self, *, leave_running: bool) -> None:
        """Leave everything to the next node, or end it all and wait until it has ended. Idempotent."""
        if self._end is None:
            if not leave_running:
                await self._end_all()
            await self._hang_up(kill=not leave_running)
        self._give_up(NodeGone("the node was closed"))

    async def _end_all(self) -> None:
        if self._link is None and await asyncio.to_thread(self._is_there):
            await self._reach()
        wards = [ward for ward in (*self._wards.values(), *self._found.values()) if ward.is_open]
        for ward in wards:
            ward.stop("shutdown", "the node was closed")
        await asyncio.gather(*(ward.ended() for ward in wards), return_exceptions=True)

    async def _hang_up(self, *, kill: bool) -> None:
        if self._joining is not None:
            self._joining.cancel()
        link = self._let_go()
        if link is not None:
            link.send([*self._out, Shutdown(kill)])
            if not kill:
                link.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await asyncio.shield(link.lost)
            link.close()

    async def _reach(self) -> None:
        if self._link is None:
            await self._wait_for_link()
        if self._end is not None:
            raise self._end

    async def _wait_for_link(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                # A connection may be lost again before we have heard that it is there.
                while self._link is None and self._end is None:
                    await asyncio.shield(self._join())
        except TimeoutError:
            raise StoreUnavailable(
                f"no guardian answers in {self.post.run}: {self._obstacle}", run=str(self.post.run)
            ) from None

    def _join(self) -> "asyncio.Task[None]":
        if self._joining is None or self._joining.done():
            self._joining = asyncio.create_task(self._try_to_join(), name="join the guardian")
        return self._joining

    async def _try_to_join(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._join_once()
            except (NodeGone, FormatTooNew) as error:
                return self._give_up(error)
            except (OSError, TimeoutError, StoreUnavailable) as error:
                self._obstacle = str(error) or type(error).__name__
                self._telemetry.event("guardian_unreachable", run=str(self.post.run), error=self._obstacle)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _join_once(self) -> None:
        try:
            sock = self.post.folder.connect()
        except (FileNotFoundError, ConnectionRefusedError):
            await launch(self.post, self._entropy)
            sock = self.post.folder.connect()
        _, link = await asyncio.get_running_loop().create_unix_connection(
            lambda: Link(self._hear, self._lose), sock=sock
        )
        try:
            await link.greet(Hello(self._epoch))
        except BaseException:
            link.close()
            raise
        self._link = link
        self._pulse = asyncio.create_task(self._watch(link), name="watch the guardian")
        self._resume()

    async def _watch(self, link: Link) -> None:
        await link.watch(self._beat)
        self._telemetry.event("guardian_silent", run=str(self.post.run))
        link.put_down()

    def _resume(self) -> None:
        """Tell a new connection what the old one may not have taken."""
        forgets, self._forgets = self._forgets, []
        orders = [order for ward in self._wards.values() if ward.is_open for order in ward.renew()]
        for order in [*orders, Forget(forgets)]:
            self.send(order)

    def send(self, order: Order) -> None:
        """Orders of one turn of the loop go together. Without a connection, what a ward does not renew is kept here."""
        if self._link is None:
            if isinstance(order, Forget):
                self._forgets += order.keys
            return
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(order)

    def release(self, key: Key) -> None:
        self._wards.pop(key, None)

    def _flush(self) -> None:
        if self._out and self._link is not None and self._link.send(self._out):
            self._out = []

    def _let_go(self) -> Link | None:
        if self._pulse is not None:
            self._pulse.cancel()
        link, self._link = self._link, None
        return link

    def _lose(self, link: Link) -> None:
        if self._link is not link:
            return
        self._let_go()
        lost, self._out = self._out, []
        self._forgets += [key for order in lost if isinstance(order, Forget) for key in order.keys]
        if self._end is None:
            self._telemetry.event("guardian_lost", run=str(self.post.run))
            if self._forgets or any(ward.is_open for ward in self._wards.values()):
                self._joining = self._join()

    def _hear(self, messages: Sequence[FromGuardian]) -> None:
        for message in messages:
            self._take(message)

    def _take(self, message: FromGuardian) -> None:
        match message:
            case Started() | End():
                self._take_news(message)
            case Listing():
                self._reconcile(message)
            case Grew(streams=streams):
                for task, fence, stream, length, dropped in streams:
                    self._grow((task, fence), stream, length, dropped)
            case Stuck() | Fault():
                self._complain(message)
            case Refused(text=text):
                self._give_way(text)
            case Welcome() | Pong():
                return
            case _:
                assert_never(message)

    def _take_news(self, news: Started | End) -> None:
        ward = self._wards.get((news.task, news.fence)) or self._found.get((news.task, news.fence))
        if ward is not None:
            _inform(ward, news)

    def _grow(self, key: Key, stream: str, length: int, dropped: int) -> None:
        ward = self._wards.get(key)
        if ward is not None:
            ward.grow(stream, length, dropped)

    def _complain(self, complaint: Stuck | Fault) -> None:
        if isinstance(complaint, Fault):
            self._telemetry.event("guardian_fault", text=complaint.text)
        else:
            self._telemetry.event("attempt_stuck", task=complaint.task, fence=complaint.fence, pids=complaint.pids)

    def _reconcile(self, listing: Listing) -> None:
        listed: list[Started | End] = [*listing.running, *listing.ended]
        for news in listed:
            self._meet(news)
            self._take_news(news)
        self._mourn({(news.task, news.fence) for news in listed})

    def _meet(self, news: Started | End) -> None:
        key = news.task, news.fence
        if key in self._wards or key in self._found:
            return
        if self._has_adopted and isinstance(news, End):
            # All that is not ours was adopted before: this is an end of ours, forgotten on the connection that broke.
            self._forgets.append(key)
        else:
            self._found[key] = Ward(key, self)

    def _mourn(self, known: set[Key]) -> None:
        for key, ward in list(self._wards.items()):
            if key in known or not ward.is_open:
                continue
            if ward.has_begun:
                ward.finish(End(*key, "lost", LOST, serial=ward.serial))
            else:
                ward.fail(StoreUnavailable("the guardian was lost before it could begin"))

    def _give_way(self, text: str) -> None:
        """Another node took over. At the greeting itself the one who greets deals with a refusal."""
        if self._link is not None:
            self._give_up(NodeGone(text))

    def _give_up(self, error: GangerError) -> None:
        self._end = self._end or error
        for ward in (*self._wards.values(), *self._found.values()):
            ward.fail(error)


def _inform(ward: Ward, news: Started | End) -> None:
    if isinstance(news, End):
        ward.finish(news)
    elif news.pid:
        ward.begin(news.pid, news.serial)
