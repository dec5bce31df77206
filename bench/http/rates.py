"""What the suite measures over HTTP: submits a second beside servers that only echo, and what followers cost."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil

from bench.http.load import Target, connect
from bench.http.servers import Running, run_echo, run_ganger

CONNECTIONS = 32
_WARM = 500
_PATH = "/v1/nodes"
_IDLE_SECONDS = 5.0
_SETTLE_SECONDS = 1.0
_NODE: dict[str, Any] = {
    "metadata": {"type": "function"},
    "data": {"path": "package.module:function", "args": []},
}


def echo(folder: Path, *, app: str, requests: int, nodes: int) -> float:
    """Requests a second that a server sends back as they are."""
    with run_echo(app) as running:
        return _drive(running.target, requests, nodes)


def submit(folder: Path, *, requests: int, nodes: int) -> float:
    """Tasks a second, each on disk before its request is answered."""
    with run_ganger(folder) as running:
        return _drive(running.target, requests, nodes) * nodes


def _drive(target: Target, requests: int, nodes: int) -> float:
    request = target.write("POST", _PATH, write_body(nodes))
    with connect(target, request, CONNECTIONS) as load:
        load.send(max(CONNECTIONS, _WARM // nodes))
        return load.send(requests)


def write_body(nodes: int) -> bytes:
    return json.dumps(_NODE if nodes == 1 else [_NODE] * nodes).encode()


def keep_subscribers(folder: Path, *, subscribers: int) -> tuple[float, float]:
    """Kilobytes of memory that each idle subscriber costs, and the share of a core that all of them take."""
    with run_ganger(folder) as running:
        server = psutil.Process(running.pid)
        _drive(running.target, _WARM, 1)
        before = server.memory_info().rss
        request = running.target.write("GET", "/v1/events")
        lines = [running.target.connect() for _ in range(subscribers)]
        for line in lines:
            line.sendall(request)
        for line in lines:
            if not line.recv(1 << 12).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("a subscriber was refused")
        time.sleep(_SETTLE_SECONDS)
        grown = server.memory_info().rss - before
        return grown / subscribers / 1e3, _take_share(running)


def _take_share(running: Running) -> float:
    """Percent of a core that the server takes while nothing happens."""
    server = psutil.Process(running.pid)
    began, spent = time.perf_counter(), sum(server.cpu_times()[:2])
    time.sleep(_IDLE_SECONDS)
    return 100 * (sum(server.cpu_times()[:2]) - spent) / (time.perf_counter() - began)
