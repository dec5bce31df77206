"""Where other processes come in: who they are, what they ask, who of them should rather own the file."""

import errno
import selectors
import socket
from collections import deque
from typing import Final

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, StoreError, StoreNewerVersion, StoreNotADatabase, StoreUnavailable
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.peers import Asked, Peer, Peers
from ganger.databases.sqlite.seat import Seat, is_trusted
from ganger.databases.sqlite.stream import Gone
from ganger.databases.sqlite.unit import ClientId, Identity, Unit
from ganger.databases.sqlite.wire import (
    Bye,
    Call,
    Frame,
    Hello,
    Listen,
    Malformed,
    Unlisten,
    Wake,
    Welcome,
    fail,
    refuse,
)

_AT_ONCE: Final = 64
_BREATHER_MS: Final = 200


class Reception:
    """Puts the units of other processes into the queue. `heir` is the one that asked for the seat."""

    def __init__(
        self, desk: Desk, seat: Seat, peers: Peers, selector: selectors.BaseSelector, queue: deque[Unit]
    ) -> None:
        self._desk = desk
        self._seat = seat
        self._peers = peers
        self._selector = selector
        self._queue = queue
        self._closed_until: Moment | None = None
        self.heir: Peer | None = None

    def open(self) -> None:
        self._seat.listen().setblocking(False)
        self._selector.register(self._seat.listen(), selectors.EVENT_READ, self._accept)
        self._closed_until = None

    def next_deadline(self) -> Moment | None:
        return self._closed_until

    def look_up(self) -> None:
        """Open again after a breather."""
        if self._closed_until is not None and self._desk.clock.now() >= self._closed_until:
            self.open()

    def _accept(self, mask: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._seat.listen().accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._take_breather(error)
                return
            self._let_in(sock)

    def _take_breather(self, error: OSError) -> None:
        # Out of descriptors: the listening socket stays readable, and the thread would spin on it.
        if error.errno not in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED}:
            raise error
        self._selector.unregister(self._seat.listen())
        self._closed_until = Moment(self._desk.clock.now() + _BREATHER_MS)

    def _let_in(self, sock: socket.socket) -> None:
        if is_trusted(sock, self._desk.place):
            self._peers.add(sock, self._hear)
        else:
            sock.close()

    def _hear(self, peer: Peer, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._peers.send(peer)
        if not mask & selectors.EVENT_READ:
            return
        try:
            for frame in peer.stream.receive():
                self._heed(peer, frame)
        except (Gone, Malformed):
            self._peers.drop(peer)

    def _heed(self, peer: Peer, frame: Frame) -> None:
        match frame:
            case Call() if peer.hello is not None:
                self._queue_unit(peer, ClientId(peer.hello.client), frame)
            case Hello() if peer.hello is None:
                self._greet(peer, frame)
            case Listen(topics):
                self._peers.listen(peer, topics)
                self._peers.say(peer, Wake(topics))
            case Unlisten(topics):
                self._peers.unlisten(peer, topics)
            case Bye():
                self._peers.drop(peer)
            case _:
                raise Malformed(f"{type(frame).__name__} is not for the owner to hear, or not now")

    def _queue_unit(self, peer: Peer, client: ClientId, call: Call) -> None:
        try:
            entry = self._desk.catalogue.find(call.operation)
            request = entry.requests.decode(call.body)
        except GangerError as error:
            self._peers.say(peer, fail(call.slot, call.seq, error))
        except msgspec.MsgspecError as error:
            unfit = StoreError(f"the request does not fit {call.operation!r}: {error}", name=call.operation)
            self._peers.say(peer, fail(call.slot, call.seq, unfit))
        else:
            waiter = Asked(self._peers, peer, call.slot, call.seq, call.letter)
            identity = Identity(client, call.slot, call.seq)
            self._queue.append(Unit(call.operation, request, waiter, identity, call.again, call.letter))

    def _greet(self, peer: Peer, hello: Hello) -> None:
        if (error := self._object(hello)) is not None:
            self._peers.say(peer, refuse(error))
            self._peers.flush()
            self._peers.drop(peer)
            return
        self._peers.greet(peer, hello)
        if self.heir is None and (hello.protocol, hello.rank) > (self._desk.charter.protocol, self._desk.rank):
            self.heir = peer
        else:
            self._peers.say(peer, Welcome(self._desk.charter.protocol, self._desk.pid))

    def _object(self, hello: Hello) -> GangerError | None:
        charter, place = self._desk.charter, self._desk.place
        if hello.application != charter.application:
            return StoreNotADatabase(f"{place.database} is in use by another program ({charter.application})")
        if hello.protocol < charter.minimum:
            return StoreNewerVersion(
                f"{place.database} is in use by a newer version (process {self._desk.pid}): upgrade this program",
                minimum=charter.minimum,
                protocol=hello.protocol,
            )
        if charter.protocol < hello.minimum:
            return StoreUnavailable(
                f"{place.database} is in use by an old version (process {self._desk.pid}): stop that first",
                pid=self._desk.pid,
            )
        return None
