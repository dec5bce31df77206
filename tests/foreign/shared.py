"""A yard in which nodes of Ganger's work beside the foreign ones, and write to the same log."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.foreign.yard import PATIENCE, PLUGIN, Yard

GANGER: Final = (sys.executable, "-c", "from ganger.cli.main import main; main()")
PROGRAM: Final = """#!/bin/sh
task=$(cat "$1")
n=${task##*'"n":'}
n=${n%%[,\\}]*}
echo "$n NODE" >> LOG
sleep SLEEP
printf '{"status": 1, "stdout": "%s"}' "$n" > "$2"
"""


class Shared(Yard):
    """A yard with nodes of Ganger's, whose plugin writes to the same log."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self._nodes: list[subprocess.Popen[bytes]] = []

    def start_node(self, name: str, sleep: float = 0) -> subprocess.Popen[bytes]:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        program = home / "program"
        program.write_text(PROGRAM.replace("NODE", name).replace("LOG", str(self.log)).replace("SLEEP", str(sleep)))
        program.chmod(0o700)
        given = {**os.environ, "GANGER_STORE": self.url, "GANGER_PLUGINS": f"{PLUGIN}={program}"}
        words = [*GANGER, "up", "--no-server", "--quiet", "--name", name, "--slots", "4", "--lease", "30s"]
        node = subprocess.Popen(words, cwd=home, env=given)
        self._nodes.append(node)
        return node

    def close(self) -> None:
        super().close()
        for node in self._nodes:
            if node.poll() is None:
                self.stop(node, signal.SIGTERM)

    def run(self, *words: str) -> str:
        """What a command of Ganger's prints."""
        given = {**os.environ, "GANGER_STORE": self.url}
        done = subprocess.run(
            [*GANGER, *words], env=given, cwd=self.folder, check=True, capture_output=True, timeout=PATIENCE
        )
        return done.stdout.decode()
