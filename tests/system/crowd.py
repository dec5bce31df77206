"""Many clients in a process of their own: half follow the events, half wait for new nodes.

They come one after another, and one who is told to come again later does. Says a number now and then while they come,
`ready` when all followers are in, and `told` when each has been told of something.
"""

import asyncio
import resource
import sys
from typing import Final

DESCRIPTORS: Final = 8_192
PAUSE: Final = 0.2
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def allow_descriptors() -> bool:
    """May this process have as many connections as the crowd needs?"""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    return True


class Crowd:
    def __init__(self, host: str, port: int, token: str) -> None:
        self._address = (host, port)
        self._head = f"HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n"

    async def follow(self) -> Line:
        """A stream of events that has begun."""
        line = await self._ask("/v1/events")
        await line[0].readuntil(b"retry: 1000\n\n")
        return line

    async def await_node(self) -> Line:
        line = await self._ask("/v1/nodes?new=0&metadata=id")
        await line[0].readuntil(b'"id"')
        return line

    async def _ask(self, path: str) -> Line:
        """The rest of an answer that says that all is well; one that says to come again is asked again."""
        status, line = await self._try(path)
        while status == b"429":
            line[1].close()
            await asyncio.sleep(PAUSE)
            status, line = await self._try(path)
        assert status == b"200", status
        return line

    async def _try(self, path: str) -> tuple[bytes, Line]:
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(f"GET {path} {self._head}".encode())
        return (await reader.readline()).split()[1], (reader, writer)


async def main(host: str, port: int, token: str, number: int) -> None:
    crowd = Crowd(host, port, token)
    waiting, following = [], []
    for index in range(number // 2):
        waiting.append(asyncio.create_task(crowd.await_node()))
        following.append(await crowd.follow())
        if index % 100 == 0:
            print(index, flush=True)
    print("ready", flush=True)
    lines = [await task for task in waiting]
    await asyncio.gather(*(reader.readuntil(b"event: submitted") for reader, _ in following))
    print("told", flush=True)
    for _, writer in lines + following:
        writer.close()


if __name__ == "__main__":
    allow_descriptors()
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
