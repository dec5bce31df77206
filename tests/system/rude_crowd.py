"""Clients that cost a server something, in a process of their own: slow ones, idle websockets, and some who never read.

Says `ready` when all are connected, and stays until its input ends.
"""

import asyncio
import resource
import socket
import sys

DESCRIPTORS = 8_192
_UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Crowd:
    def __init__(self, host: str, port: str, token: str) -> None:
        self._address = (host, int(port))
        self._head = f"HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n"
        self._tasks: list[asyncio.Task[None]] = []
        self._lines: list[socket.socket] = []

    async def gather(self, slow: int, idle: int, deaf: int) -> None:
        for number in range(slow):
            self._tasks.append(asyncio.create_task(self._dawdle(number % 2 == 0)))
        for _ in range(idle):
            reader, _ = await self._open(f"GET /v1/events {self._head}{_UPGRADE}\r\n")
            assert b" 101 " in await reader.readline()
        for _ in range(deaf):
            await self._turn_deaf()

    async def _open(self, text: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(text.encode())
        return reader, writer

    async def _dawdle(self, head: bool) -> None:
        """Send a head, or a body, a byte at a time; begin again when the server has had enough."""
        text = "GET /v1/nodes HTTP/1.1\r\nx: " if head else f"POST /v1/nodes {self._head}content-length: 9000\r\n\r\n"
        while True:
            reader, writer = await self._open(text)
            answer = asyncio.ensure_future(reader.read())
            while not answer.done():
                writer.write(b"y")
                await asyncio.wait([answer], timeout=1.0)
            writer.close()

    async def _turn_deaf(self) -> None:
        """Ask for everything that ever happened, and read nothing of it."""
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.setblocking(False)
        await asyncio.get_running_loop().sock_connect(line, self._address)
        await asyncio.get_running_loop().sock_sendall(line, f"GET /v1/events?after=0 {self._head}\r\n".encode())
        self._lines.append(line)


async def main(host: str, port: str, token: str, *numbers: str) -> None:
    crowd = Crowd(host, port, token)
    await crowd.gather(*map(int, numbers))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    asyncio.run(main(*sys.argv[1:]))
