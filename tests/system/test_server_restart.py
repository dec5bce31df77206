"""A server that starts anew in place: whoever connects meanwhile waits for a moment and is refused by nobody."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
PATIENCE = 90.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["server", "up"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, as a process of its own, and its address."""
    command = [*GANGER, request.param, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        yield process, read_address(process)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        process.stderr.close()


def read_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    while line := process.stderr.readline():
        if (told := re.match(r"serving (http://\S+)/v1/nodes", line)) is not None:
            return told[1]
    raise AssertionError("it ended before it served")


def test_nobody_is_refused_while_it_starts_anew(server: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    process, url = server
    token = (tmp_path / "ganger.db-admin-token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    node = {"metadata": {"type": "payload", "delay": 3_600_000}, "data": {"payload": "kept"}}
    assert httpx2.post(f"{url}/v1/nodes", json=node, headers=headers, timeout=PATIENCE).status_code == 201

    process.send_signal(signal.SIGHUP)
    asked, until = 0, time.monotonic() + 3.0
    while time.monotonic() < until:
        answer = ask(f"{url}/v1/nodes/1/data/payload", headers)
        assert answer in (None, "kept")
        asked += answer is not None

    assert read_address(process) == url
    assert ask(f"{url}/v1/nodes/1/data/payload", headers) == "kept"
    assert asked > 0
    assert process.poll() is None


def ask(url: str, headers: dict[str, str]) -> str | None:
    """The value, or None if the connection was taken by the server that ends. A refused connection is an error."""
    try:
        reply = httpx2.get(url, headers=headers, timeout=PATIENCE)
    except httpx2.ConnectError:
        raise
    except httpx2.TransportError:
        return None
    return str(reply.json()["data"]) if reply.status_code == 200 else None
