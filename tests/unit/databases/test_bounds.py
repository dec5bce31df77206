"""What the owner keeps for a process that does not read has an end."""

import selectors
import socket

import msgspec

from ganger.databases.sqlite import Limits
from ganger.databases.sqlite.peers import Peer, Peers
from ganger.databases.sqlite.wire import Hello, Reply
from ganger.testing.clock import FakeClock

ANSWER = msgspec.Raw(msgspec.msgpack.encode(bytes(50_000)))


def test_a_peer_that_does_not_read_is_dropped_when_too_much_waits_for_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs, selectors.DefaultSelector() as selector:
        peers = Peers(selector, FakeClock(), Limits(unsent_bytes=1 << 18), lambda client: None)
        found: list[Peer] = []
        peers.add(ours, lambda peer, mask: found.append(peer))
        selector.get_key(ours).data(selectors.EVENT_READ)
        (peer,) = found
        peers.greet(peer, Hello(1, 1, b"a" * 16, 1, "counter", 1))

        most = answer_until_dropped(peers, peer, 200)

        assert peers.greeted() == []
        assert 0 < most <= 1 << 18


def answer_until_dropped(peers: Peers, peer: Peer, times: int) -> int:
    """Give answers that nobody takes; how many bytes were kept at most."""
    most = 0
    for seq in range(times):
        if not peers.greeted():
            break
        peers.say(peer, Reply(0, seq, ANSWER))
        peers.flush()
        most = max(most, peer.stream.unsent if peers.greeted() else 0)
    return most
