"""Many clients in a process of their own: half follow the events, half wait for new nodes.

Says `ready` when all wait, and `told` when each has been told of something.
"""

import asyncio
import resource
import sys

DESCRIPTORS = 8_192


def allow_descriptors() -> bool:
    """May this process have as many connections as the crowd needs?"""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    return True


async def main(host: str, port: int, token: str, number: int) -> None:
    readers = [await _open(host, port, token, index % 2 == 0) for index in range(number)]
    for index, (reader, _) in enumerate(readers):
        if index % 2 == 0:
            await reader.readuntil(b"retry: 1000\n\n")
    print("ready", flush=True)
    marks = (b"event: submitted", b'"id"')
    await asyncio.gather(*(reader.readuntil(marks[index % 2]) for index, (reader, _) in enumerate(readers)))
    print("told", flush=True)
    for _, writer in readers:
        writer.close()


async def _open(host: str, port: int, token: str, follows: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    path = "/v1/events" if follows else "/v1/nodes?new=0&metadata=id"
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n".encode())
    return reader, writer


if __name__ == "__main__":
    allow_descriptors()
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
