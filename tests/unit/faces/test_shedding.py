"""Whom a server that is behind refuses at the head of a request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ganger.faces.http.door import HttpDoor
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.limits import PLAIN_LIMITS
from ganger.faces.http.pressure import FEW
from ganger.faces.http.reply import Reply
from ganger.faces.http.request import Head, Request
from ganger.faces.http.routes import Route, Table
from ganger.faces.http.visits import Visits
from ganger.testing.clock import FakeClock

LIMITS: Final = PLAIN_LIMITS._replace(slow=0.0, respite=0.0)
"""With these every request is done too late."""
MANY: Final = 400


class Still:
    """A connection that is asked for nothing."""

    def pause(self) -> None:
        raise AssertionError

    resume = invite = pause


def _ask(method: str, path: bytes) -> Request:
    return Request(Head(method, path, b"", {}, "", 0.0), LIMITS, Still())


ADD, LOOK, TOLD = _ask("POST", b"/nodes"), _ask("GET", b"/nodes"), _ask("PUT", b"/result")


class Nobody:
    """Knows no token."""

    def find(self, token: str) -> Grant | None:
        return None

    def holds(self, grant: Grant) -> bool:
        return False


async def _endpoint(_: Request) -> Reply:
    return Reply(200)


def _open_door() -> HttpDoor:
    rows = [("POST", "/nodes", Need.SUBMIT), ("GET", "/nodes", Need.READ), ("PUT", "/result", Need.WORK)]
    table = Table(Route(method, path, need, _endpoint, "") for method, path, need in rows)
    keeper = Nobody()
    return HttpDoor(table, keeper, FakeClock(), Visits(keeper, 1), hosts=None, limits=LIMITS)


async def _fall_behind(door: HttpDoor) -> None:
    """Submits are done, each too late, for longer than a moment."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 0.15
    while loop.time() < until:
        door.at_once = MANY
        door.note_end(Need.SUBMIT, loop.time() - 1.0)
        await asyncio.sleep(0)


def story(tell: Callable[[HttpDoor], Awaitable[None]]) -> Callable[[], None]:
    """A test that has a door, in a loop of its own."""

    async def run() -> None:
        await tell(_open_door())

    return lambda: asyncio.run(run())


@story
async def test_beyond_what_is_done_in_time_submits_are_refused_and_results_are_not(door: HttpDoor) -> None:
    await _fall_behind(door)
    door.at_once = MANY
    assert all(door.sheds(ADD) for _ in range(100))
    assert not any(door.sheds(LOOK) for _ in range(FEW))
    assert not any(door.sheds(TOLD) for _ in range(100))


@story
async def test_in_one_turn_of_the_loop_only_some_begin_and_in_the_next_others(door: HttpDoor) -> None:
    await _fall_behind(door)
    for _ in range(3):
        door.at_once = 0
        told = [bool(door.sheds(ADD)) for _ in range(100)]
        assert told == [False] * FEW + [True] * (100 - FEW)
        await asyncio.sleep(0)


@story
async def test_a_server_that_is_not_behind_takes_a_burst_whole(door: HttpDoor) -> None:
    assert not any(door.sheds(ADD) for _ in range(LIMITS.at_once))
