"""A read ends with whoever waits for it, whatever the driver makes of a cancellation."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ganger.databases.mongo import Database
from ganger.runtime.entropy import SystemEntropy


def test_who_is_cancelled_goes_at_once_though_the_driver_loses_it(mongo_url: Callable[[], str]) -> None:
    async def tell() -> None:
        database = await Database.open(mongo_url(), SystemEntropy(), ())
        began, let_go = asyncio.Event(), asyncio.Event()

        async def lose_it(_: Any) -> None:
            began.set()
            with suppress(asyncio.CancelledError):
                await let_go.wait()
            await let_go.wait()

        reading = asyncio.create_task(database.read(lose_it, "reading"))
        await began.wait()
        reading.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await reading
        let_go.set()
        await database.close()

    asyncio.run(tell())
