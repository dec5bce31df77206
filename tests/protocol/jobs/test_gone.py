"""A worker goes away in the middle of whatever is being done for it: nobody else notices, and no log shows its data."""

import asyncio
from pathlib import Path
from typing import Any

from tests.protocol.jobs.harness import Site, story_in

ROUNDS = 30


@story_in
async def test_a_worker_that_goes_with_its_result_breaks_nothing(site: Site, _: Path) -> None:  # noqa: PT019
    """It is asked whether it takes another while its result is written, and is not there any more."""
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    for number in range(ROUNDS):
        job = await site.submit(b"payload")
        async with site.join(f"w{number}") as worker:
            await worker.take()
            await worker.give(b"result")
            worker.socket.transport.write_eof() if number % 2 else worker.socket.transport.abort()
        async with site.join(f"heir{number}") as heir:
            if (await site.show(job["key"]))["status"] != "complete":
                await heir.take()
                await heir.give(b"result")
        assert await site.read(job["key"], "result", wait=15) == b"result"
    assert broken == []
