"""The rest of a loop."""

import asyncio
import time

from ganger.runtime.respite import Respite

REST = 0.02


def test_a_loop_rests_once_in_a_turn_however_often_it_is_asked() -> None:
    async def turn() -> float:
        respite, began = Respite(asyncio.get_running_loop(), REST), time.monotonic()
        for _ in range(1_000):
            respite.ask()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return time.monotonic() - began

    assert REST <= asyncio.run(turn()) < 1_000 * REST / 2


def test_it_rests_again_in_the_next_turn() -> None:
    async def rest_twice() -> float:
        respite, began = Respite(asyncio.get_running_loop(), REST), time.monotonic()
        for _ in range(2):
            respite.ask()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return time.monotonic() - began

    assert asyncio.run(rest_twice()) >= 2 * REST
