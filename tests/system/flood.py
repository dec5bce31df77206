"""A client in a process of its own that submits nodes: as fast as it is answered, or at a rate whatever is answered.

Each connection has one request on its way. At a rate, one that finds no free connection is not sent, and counted so.
Prints what became of the requests as one line of JSON; times are milliseconds.
"""

import json
import select
import socket
import sys
import time
from collections import deque
from typing import Any

END = b"\r\n\r\n"
SILENCE = 20.0
LEAD = 1.0


class Flood:
    def __init__(self, host: str, port: int, request: bytes, connections: int, source: str = "") -> None:
        self._request = request
        self._poll = select.epoll()
        self._lines = {line.fileno(): line for line in (_connect(host, port, source) for _ in range(connections))}
        self._free = deque(self._lines)
        self._begun: dict[int, float] = {}
        self._parts: dict[int, bytes] = {}
        self.took: dict[int, list[float]] = {}
        self.unsent = 0
        for number in self._lines:
            self._poll.register(number, select.EPOLLIN)

    def submit(self, seconds: float, rate: float) -> None:
        """Send for so long, after a second that does not count; with no rate as soon as a connection is free."""
        self._send_for(LEAD, rate)
        self.took.clear()
        self.unsent = 0
        self._send_for(seconds, rate)

    def drain(self) -> None:
        """Wait for the answers that are missing; they count no more."""
        until = time.perf_counter() + SILENCE
        while self._begun and time.perf_counter() < until:
            self._listen(1.0)

    def _send_for(self, seconds: float, rate: float) -> None:
        began = now = time.perf_counter()
        due = 0
        while now < began + seconds:
            wanted = len(self._free) if not rate else int((now - began) * rate) - due
            due += wanted
            for _ in range(wanted):
                self._send(now)
            self._listen(0.001 if rate else 1.0)
            now = time.perf_counter()

    def _send(self, now: float) -> None:
        if not self._free:
            self.unsent += 1
            return
        number = self._free.popleft()
        self._begun[number] = now
        self._lines[number].sendall(self._request)

    def _listen(self, patience: float) -> None:
        for number, _ in self._poll.poll(patience):
            answer = self._parts.pop(number, b"") + self._lines[number].recv(1 << 16)
            if not _is_whole(answer):
                self._parts[number] = answer
                continue
            taken = 1000 * (time.perf_counter() - self._begun.pop(number))
            self.took.setdefault(int(answer[9:12]), []).append(taken)
            self._free.append(number)


def _connect(host: str, port: int, source: str) -> socket.socket:
    """A connection on which the server has answered already: nothing waits to be accepted."""
    line = socket.create_connection((host, port), SILENCE, (source, 0) if source else None)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.sendall(f"GET /health/live HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    answer = line.recv(1 << 16)
    while not _is_whole(answer):
        answer += line.recv(1 << 16)
    return line


def _is_whole(answer: bytes) -> bool:
    if not answer:
        raise ConnectionError("the server closed a connection")
    head, found, body = answer.partition(END)
    length = head.partition(b"content-length: ")[2].partition(b"\r")[0]
    return bool(found) and len(body) >= int(length)


def summarise(flood: Flood) -> dict[str, Any]:
    return {
        "unsent": flood.unsent,
        "answers": {str(status): len(took) for status, took in flood.took.items()},
        "p99": {str(status): sorted(took)[int(len(took) * 0.99)] for status, took in flood.took.items()},
    }


def main(host: str, port: str, token: str, *words: str) -> None:
    *numbers, source = words
    nodes, connections, seconds, rate = map(float, numbers)
    body = json.dumps([{"metadata": {"type": "payload"}, "data": {"payload": "x" * 40}}] * int(nodes)).encode()
    head = f"POST /v1/nodes HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    flood = Flood(host, int(port), request, int(connections), source)
    flood.submit(seconds, rate)
    told = json.dumps(summarise(flood))
    flood.drain()
    print(told, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
