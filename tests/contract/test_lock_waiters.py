"""Fifty who wait for one lock all get it, and none waits much longer than the others."""

import asyncio
from pathlib import Path

import pytest

from ganger.coordination.coordination import Coordination
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.contracts.documents import DocumentStand
from tests.servers.documents import PLACES, find_address, mark_servers, run_stand

WAITERS = 50
PROCESSES = 5
TTL = 2_000
CLOCK = SystemClock()


@pytest.mark.parametrize("place", mark_servers(PLACES))
def test_the_longest_of_fifty_waits_is_at_most_five_times_the_median(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    waits: list[int] = []

    async def wait(room: Coordination) -> None:
        began = CLOCK.now()
        hold = await room.lock("a", ttl=TTL).acquire(None)
        waits.append(CLOCK.now() - began)
        hold.check()
        await hold.release()

    async def check(stand: DocumentStand) -> None:
        rooms = [Coordination(await stand.open(), CLOCK, SystemEntropy()) for _ in range(PROCESSES)]
        await asyncio.gather(*(wait(rooms[number % PROCESSES]) for number in range(WAITERS)))

    run_stand(find_address(place, request, tmp_path), check)
    waits.sort()
    print(f"{place}: median {waits[WAITERS // 2]} ms, longest {waits[-1]} ms")
    assert len(waits) == WAITERS
    assert waits[-1] <= 5 * max(1, waits[WAITERS // 2])
