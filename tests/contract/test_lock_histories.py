"""Locks of many clients on one store: what they were told could have happened one after the other."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from ganger.coordination.coordination import Coordination
from ganger.coordination.hold import Hold
from ganger.coordination.lock import Busy
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing import Operation, linearize
from ganger.testing.contracts.documents import DocumentStand
from ganger.testing.linearizability import Unknown, describe
from tests.servers.documents import PLACES, find_address, mark_servers, run_stand

CLIENTS = 4
ROUNDS = 12
TTL = 60_000


class Asked(NamedTuple):
    what: str
    client: int


class LockModel:
    """One holder at a time; each has a higher epoch. The state is who holds it, and the last epoch."""

    def start(self) -> tuple[int | None, tuple[int, int]]:
        return None, (0, -1)

    def step(
        self, state: tuple[int | None, tuple[int, int]], op: Asked, result: tuple[int, int] | Unknown | None
    ) -> tuple[int | None, tuple[int, int]] | None:
        holder, last = state
        if op.what == "release":
            return (None, last) if holder == op.client else None
        if isinstance(result, Unknown):
            return state
        if result is None:
            # It is busy, or somebody was quicker in between.
            return state
        return (op.client, result) if holder is None and result > last else None


@pytest.mark.parametrize("place", mark_servers(PLACES))
def test_histories_of_locks_are_linearizable(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    history: list[Operation[Asked, tuple[int, int] | None]] = []

    async def check(stand: DocumentStand) -> None:
        backends = [await stand.open() for _ in range(CLIENTS)]
        rooms = [Coordination(backend, SystemClock(), SystemEntropy()) for backend in backends]
        await asyncio.gather(*(use(room, client, history) for client, room in enumerate(rooms)))

    run_stand(find_address(place, request, tmp_path), check)
    taken = [operation for operation in history if operation.op.what == "take" and operation.result is not None]
    verdict = linearize(LockModel(), history)
    assert verdict, describe(verdict)
    assert len(taken) == CLIENTS * ROUNDS


async def use(room: Coordination, client: int, history: list[Operation[Asked, tuple[int, int] | None]]) -> None:
    tick = asyncio.get_running_loop().time
    held = 0
    while held < ROUNDS:
        called = round(tick() * 1e9)
        found = await room.lock("a", ttl=TTL).attempt()
        if isinstance(found, Busy):
            # What is busy is told often and says little: it would make the search long.
            await asyncio.sleep(0.001)
            continue
        history.append(Operation(Asked("take", client), called, round(tick() * 1e9), found.epoch))
        held += 1
        await give_back(found, client, history)


async def give_back(hold: Hold, client: int, history: list[Operation[Asked, tuple[int, int] | None]]) -> None:
    tick = asyncio.get_running_loop().time
    called = round(tick() * 1e9)
    await hold.release()
    history.append(Operation(Asked("release", client), called, round(tick() * 1e9), None))


def test_a_history_with_two_holders_is_found() -> None:
    history: list[Operation[Asked, tuple[int, int] | None]] = [
        Operation(Asked("take", 1), 0, 10, (1, 1)),
        Operation(Asked("take", 2), 20, 30, (1, 2)),
        Operation(Asked("release", 1), 40, 50, None),
    ]

    assert not linearize(LockModel(), history)


def test_a_history_whose_epoch_falls_is_found() -> None:
    history: list[Operation[Asked, tuple[int, int] | None]] = [
        Operation(Asked("take", 1), 0, 10, (1, 5)),
        Operation(Asked("release", 1), 20, 30, None),
        Operation(Asked("take", 2), 40, 50, (1, 4)),
    ]

    assert not linearize(LockModel(), history)
