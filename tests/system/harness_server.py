"""A server as a process of its own, and clients as processes of theirs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Serving:
    host: str
    port: str
    token: str
    pid: int

    def flood(
        self, *, nodes: int = 1, connections: int = 1, seconds: float = 1.0, rate: float = 0.0, source: str = ""
    ) -> dict[str, Any]:
        """What became of the requests of a client that floods the server so, from that address."""
        words = (str(nodes), str(connections), str(seconds), str(rate), source)
        ran = subprocess.run(
            self.client("tests.system.flood", *words), cwd=ROOT, capture_output=True, text=True,
            timeout=seconds + PATIENCE, check=True,
        )  # fmt: skip
        told: dict[str, Any] = json.loads(ran.stdout)
        return told

    def client(self, module: str, *words: str) -> Sequence[str]:
        return [sys.executable, "-m", module, self.host, self.port, self.token, *words]


@contextmanager
def serving(
    folder: Path, command: str = "server", *, files: int | None = None, **environment: str
) -> Iterator[Serving]:
    """`ganger server`, or `ganger up`, on a file in the folder. `files` may be open, unless it asks for more."""
    words = [*GANGER, command, "--listen", "127.0.0.1:0"]
    words = words if files is None else ["prlimit", f"--nofile={files}:", *words]
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        told = re.match(r"serving http://(\S+):(\d+)/v1/nodes", process.stderr.readline() if command == "up" else said)
        assert told is not None
        token = (folder / "ganger.db-admin-token").read_text().strip()
        yield Serving(told[1], told[2], token, process.pid)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        process.stderr.close()
