"""Connections from one address that say nothing, or a byte a second, in a process of their own.

Who is refused, or has been sent away, comes again ten seconds later.
Says `ready` when all have been tried once, and stays
until its input ends.
"""

import asyncio
import resource
import sys
from contextlib import suppress

PAUSE = 1.0
REST = 10.0
AT_ONCE = 200
OPENINGS = (
    b"",
    b"GET /v1/nodes HTTP/1.1\r\nx: ",
    b"POST /v1/nodes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000\r\n\r\n",
)


class Crowd:
    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._coming = asyncio.Semaphore(AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def gather(self, number: int) -> None:
        tried = [asyncio.Event() for _ in range(number)]
        self._tasks = [asyncio.create_task(self._stay(index, event)) for index, event in enumerate(tried)]
        for event in tried:
            await event.wait()

    async def _stay(self, index: int, tried: asyncio.Event) -> None:
        while True:
            with suppress(OSError):
                await self._sit(OPENINGS[index % len(OPENINGS)], tried)
            tried.set()
            await asyncio.wait([self._end], timeout=REST)

    async def _sit(self, opening: bytes, tried: asyncio.Event) -> None:
        async with self._coming:
            reader, writer = await asyncio.open_connection(*self._address)
        tried.set()
        try:
            writer.write(opening)
            answer = asyncio.ensure_future(reader.read())
            while not answer.done():
                if opening:
                    writer.write(b"y")
                await asyncio.wait([answer], timeout=PAUSE)
            answer.result()
        finally:
            writer.close()


async def main(host: str, port: str, _: str, number: str) -> None:
    crowd = Crowd(host, int(port))
    await crowd.gather(int(number))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(*sys.argv[1:]))
