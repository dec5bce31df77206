"""The first words between a process that connects and the owner."""

import selectors
from collections.abc import Sequence
from typing import NamedTuple

from ganger.core.clock import Moment
from ganger.core.errors import StoreUnavailable
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.seat import Seat, connect, is_trusted, peer_user, receive_seat
from ganger.databases.sqlite.stream import Gone, Stream
from ganger.databases.sqlite.wire import Frame, Handover, Malformed, Refused, Welcome, error_of


class Connected(NamedTuple):
    """The owner took us in. `frames` came behind its welcome."""

    stream: Stream
    owner: int
    frames: Sequence[Frame]


def reach_owner(desk: Desk, deadline: Moment) -> Connected | Seat | None:
    """A connection to the owner, or its seat if it hands that over; None if there is no owner to talk to yet.

    Raises what the owner answers if it refuses this process.
    """
    sock = connect(desk.place, _seconds(desk, deadline))
    if sock is None:
        return None
    stream = Stream(sock, desk.limits.frame_bytes)
    result = None
    try:
        _refuse_stranger(desk, stream)
        stream.add(desk.hello())
        stream.flush()
        result = _understand(desk, stream, _await_frames(desk, stream, deadline))
    except (Gone, Malformed):
        return None
    finally:
        if not isinstance(result, Connected):
            stream.close()
    return result


def _refuse_stranger(desk: Desk, stream: Stream) -> None:
    if not is_trusted(stream.sock, desk.place):
        raise StoreUnavailable(
            f"another user (uid {peer_user(stream.sock)}) listens at {desk.place.socket}: remove it, or ask that user",
            path=str(desk.place.socket),
        )


def _await_frames(desk: Desk, stream: Stream, deadline: Moment) -> list[Frame]:
    with selectors.DefaultSelector() as selector:
        selector.register(stream.sock, selectors.EVENT_READ)
        while selector.select(_seconds(desk, deadline)):
            if frames := stream.receive_with_descriptors():
                return frames
    return []


def _understand(desk: Desk, stream: Stream, frames: Sequence[Frame]) -> Connected | Seat | None:
    match frames:
        case [Welcome() as welcome, *rest]:
            return Connected(stream, welcome.pid, rest)
        case [Handover()] if len(stream.descriptors) == 2:
            desk.probe("handover.received")
            return receive_seat(desk.place, stream.descriptors)
        case [Refused() as refused]:
            raise error_of(refused)
        case _:
            return None


def _seconds(desk: Desk, deadline: Moment) -> float:
    return max(1, deadline - desk.clock.now()) / 1000
