"""How long a command takes over HTTP: from its submit to the news that it has started, and to the end of a wait for it.

One client with three connections to `ganger up`: one submits, one follows the events, one waits for the node.
"""

from __future__ import annotations

import json
import re
import select
import socket
import statistics
import time
from pathlib import Path

from bench.http.load import RefusedError, Target, is_whole
from bench.http.servers import run_ganger

_WARM = 20
_PATIENCE = 20.0
_TRUE = json.dumps({"metadata": {"type": "command"}, "data": {"command": "true"}}).encode()
_BEGUN = re.compile(rb'"fact":"(?:claimed|started)"')
_ID = re.compile(rb'"id":"(\d+)"')


def time_commands(folder: Path, *, times: int) -> tuple[float, float, float, float]:
    """Milliseconds: p50 and p99 until it has started, p50 and p99 until the wait has returned."""
    with run_ganger(folder, node=True) as running:
        courier = _Courier(running.target)
        for _ in range(_WARM):
            courier.carry()
        taken = [courier.carry() for _ in range(times)]
        started, ended = ([1000 * value for value in column] for column in zip(*taken, strict=True))
        return (*_percentiles(started), *_percentiles(ended))


def _percentiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]


class _Courier:
    """Carries one command after the other."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sender, self._waiter, self._follower = (target.connect() for _ in range(3))
        self._told = b""
        self._follower.sendall(target.write("GET", "/v1/events"))
        while b"retry: " not in self._told:
            self._told += self._follower.recv(1 << 16)

    def carry(self) -> tuple[float, float]:
        """Seconds until it had started, and until the wait had returned."""
        self._told = b""
        began = time.perf_counter()
        self._sender.sendall(self._target.write("POST", "/v1/nodes", _TRUE))
        made = _ID.search(_receive(self._sender))
        if made is None:
            raise RefusedError("the answer names no node")
        self._waiter.sendall(self._target.write("GET", f"/v1/scheduler/wait?id={made[1].decode()}"))
        return self._watch(b'"id":"%b"' % made[1], began)

    def _watch(self, node: bytes, began: float) -> tuple[float, float]:
        started = ended = 0.0
        while not (started and ended):
            ready, _, _ = select.select([self._follower, self._waiter], [], [], _PATIENCE)
            if not ready:
                raise RefusedError(f"nothing was told of a command for {_PATIENCE:g} s")
            if self._follower in ready:
                self._told += self._follower.recv(1 << 16)
                started = started or (time.perf_counter() - began) * self._has_begun(node)
            if self._waiter in ready:
                _receive(self._waiter)
                ended = time.perf_counter() - began
        return started, ended

    def _has_begun(self, node: bytes) -> bool:
        return any(node in event and _BEGUN.search(event) for event in self._told.split(b"\n\n"))


def _receive(connection: socket.socket) -> bytes:
    answer = connection.recv(1 << 16)
    while answer and not is_whole(answer):
        answer += connection.recv(1 << 16)
    return answer
