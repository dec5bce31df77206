"""A database that programs of several makes share, and a log of every task that any of them has run."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient

HERE: Final = Path(__file__).parent
PATIENCE: Final = 120.0
PLUGIN: Final = "Disbatch::Plugin::Demo"


class Yard:
    """Starts foreign programs on one database, and ends those that are left."""

    commander = "dcn.py"

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.log = folder / "runs"
        self._client: MongoClient[dict[str, Any]] = MongoClient(url)
        self.base: Any = self._client.get_default_database()
        self._dens: list[subprocess.Popen[bytes]] = []

    def command(self, *words: object) -> None:
        """Have a foreign command node do something."""
        said = [sys.executable, str(HERE / self.commander), self.url, *map(str, words)]
        subprocess.run(said, check=True, timeout=PATIENCE)

    def start_den(self, node: str) -> subprocess.Popen[bytes]:
        program, *words = self.word_den(node)
        return self._start([sys.executable, str(HERE / program), *words])

    def start_perl_den(self, node: str) -> subprocess.Popen[bytes]:
        """One in the language of the original."""
        return self._start(["perl", str(HERE / "den.pl"), self.url, node, str(self.log)])

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        den = subprocess.Popen(words)
        self._dens.append(den)
        return den

    def word_den(self, node: str) -> list[str]:
        return ["den.py", self.url, node, str(self.log)]

    def stop(self, den: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
        den.send_signal(how)
        den.wait(PATIENCE)

    def close(self) -> None:
        self._client.close()
        for den in self._dens:
            if den.poll() is None:
                self.stop(den, signal.SIGKILL)

    def count(self, **filter_: Any) -> int:
        number: int = self.base.tasks.count_documents(filter_)
        return number

    def is_busy(self, node: str) -> bool:
        return self.count(status=0, node=node) > 0

    def count_runs(self) -> Counter[str]:
        """How often each task was run, by the number in its parameters."""
        text = self.log.read_text() if self.log.exists() else ""
        return Counter(line.split()[0] for line in text.splitlines())

    def list_runners(self) -> set[str]:
        return {line.split()[1] for line in self.log.read_text().splitlines()}

    def until(self, happens: Callable[[], bool], within: float = PATIENCE) -> None:
        deadline = time.monotonic() + within
        while not happens():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.05)
