"""The processes connected to an owner: what each asked for, and what it has not read yet."""

import selectors
import socket
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from ganger.core.clock import Clock, Moment
from ganger.databases.sqlite.limits import Limits
from ganger.databases.sqlite.stream import Gone, Stream
from ganger.databases.sqlite.unit import ClientId, Outcome, Post
from ganger.databases.sqlite.wire import Frame, Hello, Reply, Wake, fail

_MANY: Final = 32
"""So many replies that nobody waits for go together."""


class Peer:
    """One connected process. It is cut when it does not read, or says no hello, until the deadline."""

    __slots__ = ("blocked", "deadline", "hello", "stream", "topics")

    def __init__(self, stream: Stream, deadline: Moment) -> None:
        self.stream = stream
        self.hello: Hello | None = None
        self.topics: set[str] = set()
        self.blocked = False
        self.deadline = deadline


class Asked(NamedTuple):
    """A unit's caller in another process."""

    peers: "Peers"
    peer: Peer
    slot: int
    seq: int
    is_letter: bool = False

    def tell(self, outcome: Outcome, post: Post) -> None:
        if outcome.error is not None:
            self.peers.say(self.peer, fail(self.slot, self.seq, outcome.error))
        elif self.is_letter:
            self.peers.say_later(self.peer, Reply(self.slot, self.seq, msgspec.Raw(outcome.encoded)))
        else:
            self.peers.say(self.peer, Reply(self.slot, self.seq, msgspec.Raw(outcome.encoded)))


class Peers:
    """All of them. What is said to a peer is sent by `flush`, together for each."""

    def __init__(
        self, selector: selectors.BaseSelector, clock: Clock, limits: Limits, gone: Callable[[ClientId], None]
    ) -> None:
        self._gone = gone
        self._selector = selector
        self._clock = clock
        self._limits = limits
        self._peers: set[Peer] = set()
        self._timed: set[Peer] = set()
        self._unsent: dict[Peer, None] = {}
        self._later: dict[Peer, int] = {}
        self._by_topic: dict[str, set[Peer]] = {}

    def greeted(self) -> list[Peer]:
        """Those that said hello."""
        return [peer for peer in self._peers if peer.hello is not None]

    def add(self, sock: socket.socket, hear: Callable[[Peer, int], None]) -> None:
        peer = Peer(Stream(sock, self._limits.frame_bytes), self._next_deadline())
        self._peers.add(peer)
        self._timed.add(peer)
        self._selector.register(sock, selectors.EVENT_READ, lambda mask: hear(peer, mask))

    def _next_deadline(self) -> Moment:
        return Moment(self._clock.now() + self._limits.stalled_ms)

    def greet(self, peer: Peer, hello: Hello) -> None:
        """Note who it is; an older connection of the same client is dead, or it would not have come again."""
        for other in self.greeted():
            if other.hello is not None and other.hello.client == hello.client:
                self.drop(other)
        peer.hello = hello
        self._timed.discard(peer)

    def drop(self, peer: Peer) -> None:
        """Idempotent."""
        if peer in self._peers:
            self._peers.remove(peer)
            self._timed.discard(peer)
            self._unsent.pop(peer, None)
            self._later.pop(peer, None)
            self.unlisten(peer, list(peer.topics))
            self._selector.unregister(peer.stream.sock)
            peer.stream.close()
            if peer.hello is not None:
                self._gone(ClientId(peer.hello.client))

    def say(self, peer: Peer, frame: Frame) -> None:
        """Have a frame sent at the next flush; nothing if the peer is gone."""
        if peer in self._peers:
            peer.stream.add(frame)
            self._unsent[peer] = None

    def say_later(self, peer: Peer, frame: Frame) -> None:
        """As `say`, of what nobody waits for: it goes with whatever is said next, with many of its kind, or at rest."""
        if peer in self._peers:
            peer.stream.add(frame)
            self._later[peer] = held = self._later.get(peer, 0) + 1
            if held >= _MANY:
                self._unsent[peer] = None

    @property
    def has_later(self) -> bool:
        return bool(self._later)

    def rest(self) -> None:
        """Nothing else is to be done: have everything sent."""
        if self._later:
            self._unsent.update(dict.fromkeys(self._later))
            self.flush()

    def listen(self, peer: Peer, topics: Iterable[str]) -> None:
        for topic in topics:
            peer.topics.add(topic)
            self._by_topic.setdefault(topic, set()).add(peer)

    def unlisten(self, peer: Peer, topics: Iterable[str]) -> None:
        for topic in peer.topics.intersection(topics):
            peer.topics.remove(topic)
            self._by_topic[topic].remove(peer)
            if not self._by_topic[topic]:
                del self._by_topic[topic]

    def wake(self, topics: Iterable[str]) -> None:
        woken: dict[Peer, list[str]] = {}
        for topic in topics:
            for peer in self._by_topic.get(topic, ()):
                woken.setdefault(peer, []).append(topic)
        for peer, heard in woken.items():
            self.say(peer, Wake(heard))

    def flush(self) -> None:
        """Send what the peers take now; the rest goes when they read on."""
        for peer in list(self._unsent):
            self.send(peer)

    def send(self, peer: Peer) -> None:
        before = peer.stream.unsent
        self._later.pop(peer, None)
        try:
            whole = peer.stream.flush()
        except Gone:
            self.drop(peer)
            return
        if whole:
            self._unsent.pop(peer, None)
            self._unblock(peer)
        elif peer.stream.unsent > self._limits.unsent_bytes:
            self.drop(peer)
        else:
            self._block(peer, moved=peer.stream.unsent < before)

    def _block(self, peer: Peer, *, moved: bool) -> None:
        if moved or not peer.blocked:
            peer.deadline = self._next_deadline()
            self._timed.add(peer)
        if not peer.blocked:
            peer.blocked = True
            self._watch(peer, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _unblock(self, peer: Peer) -> None:
        if peer.blocked:
            peer.blocked = False
            self._timed.discard(peer)
            self._watch(peer, selectors.EVENT_READ)

    def _watch(self, peer: Peer, events: int) -> None:
        sock = peer.stream.sock
        self._selector.modify(sock, events, self._selector.get_key(sock).data)

    def next_deadline(self) -> Moment | None:
        """When the first of them has to be cut, unless it moves."""
        return min((peer.deadline for peer in self._timed), default=None)

    def cut_stalled(self) -> None:
        now = self._clock.now()
        for peer in [peer for peer in self._timed if peer.deadline <= now]:
            self.drop(peer)

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    def close(self) -> None:
        for peer in list(self._peers):
            self.drop(peer)

    def abandon(self) -> None:
        """Close the sockets and nothing else: in a forked child the selector is the parent's too."""
        for peer in self._peers:
            peer.stream.close()
