"""A Redis server of the run's own: in a folder, reached by a unix socket, stopped at the end."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers.settings import RedisSettings
from bench.work import NotMeasuredError

_ADVICE = "Redis is missing: install it (Debian: apt-get install redis-server)"
_START_DEADLINE = 20.0
_STOP_DEADLINE = 20.0


@contextmanager
def run_redis(settings: RedisSettings, beside: Path) -> Iterator[str]:
    """The path of the server's socket; the server and its files are gone afterwards."""
    program = find_redis()
    folder = Path(tempfile.mkdtemp(prefix="bench-redis-", dir=beside))
    socket = folder / "socket"
    try:
        with (folder / "log").open("ab") as log:
            command = redis_arguments(program, socket, settings)
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, process_group=0)
        try:
            _await_socket(socket, server)
            yield str(socket)
        finally:
            _stop(server)
    finally:
        shutil.rmtree(folder)


def find_redis() -> str:
    program = shutil.which("redis-server")
    if program is None:
        raise NotMeasuredError(_ADVICE)
    return program


def redis_arguments(program: str, socket: Path, settings: RedisSettings) -> Sequence[str]:
    options = {"port": "0", "unixsocket": str(socket), "dir": str(socket.parent), **settings.parameters}
    return [program, *(part for name, value in options.items() for part in (f"--{name}", value))]


def _await_socket(socket: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_DEADLINE
    while not socket.is_socket():
        if server.poll() is not None or time.monotonic() > deadline:
            words = (socket.parent / "log").read_text().strip().rpartition("\n")[2]
            raise NotMeasuredError(f"Redis did not start: {words}")
        time.sleep(0.02)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
