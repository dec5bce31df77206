"""A real S3 service in a process of its own, on loopback, for the time of the tests."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from urllib.request import Request, urlopen

from ganger.engine.blobs.bucket import BucketPlace

ADVICE = "moto is missing: install the group dev"
KEY, SECRET, REGION = "tests", "tests-secret", "us-east-1"
_PATIENCE = 60.0
_numbers = itertools.count(1)

_PROGRAM = """
import ctypes, runpy, signal, sys
if sys.platform == "linux":
    # PR_SET_PDEATHSIG: tests that are killed clear nothing away.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
runpy.run_module("moto.server", run_name="__main__")
"""


class MotoMissing(Exception):
    """There is no moto in this environment."""


class MotoServer:
    """Keeps what it has in memory: killed, it comes back empty."""

    def __init__(self) -> None:
        if find_spec("moto") is None or find_spec("flask_cors") is None:
            raise MotoMissing(ADVICE)
        self.port = _find_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        words = [sys.executable, "-c", _PROGRAM, "-H", "127.0.0.1", "-p", str(self.port)]
        with TemporaryFile() as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=Path("/"), process_group=0)
            self._await_ready(self._process)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def make_bucket(self) -> BucketPlace:
        """A bucket that no other test has."""
        name = f"tests-{os.getpid()}-{next(_numbers)}"
        with urlopen(Request(f"{self.url}/{name}", method="PUT"), timeout=_PATIENCE):
            return BucketPlace(name, "some/where", self.url, REGION, KEY, SECRET)

    def list_pending(self, bucket: str) -> str:
        """What the service says of uploads that were begun and not ended."""
        with urlopen(f"{self.url}/{bucket}?uploads", timeout=_PATIENCE) as answer:
            said: bytes = answer.read()
            return said.decode()

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), urlopen(f"{self.url}/moto-api/data.json", timeout=_PATIENCE):
                return
            time.sleep(0.05)
        raise RuntimeError(f"moto did not start: it ended with {process.poll()}")


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
