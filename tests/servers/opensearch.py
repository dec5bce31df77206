"""An OpenSearch server for tests: fetched once from Maven Central, started in a folder, killed and stopped at will.

It is the distribution without plugins: REST, storage and search, which is what the contract needs.
"""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

RUNNING = "GANGER_TEST_ELASTIC"
"""The URL of a server that runs already (elasticsearch+http://host:port), instead of one of the tests' own."""
PLACE = "GANGER_TEST_CACHE"
VERSION = "2.19.6"
ADVICE = "OpenSearch needs Java 17 and Maven, which fetches it (Debian: apt-get install openjdk-17-jre-headless maven)"
_ARTIFACT = f"org.opensearch.distribution.integ-test-zip:opensearch:{VERSION}:zip"
_FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_MODULES = frozenset({"transport-netty4", "lang-painless", "reindex", "mapper-extras"})
_PATIENCE = 120.0
_numbers = itertools.count(1)
_LOGGING = """status=error
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
"""


class Missing(Exception):
    """There is no Java, or OpenSearch can not be fetched."""


class OpenSearchServer:
    """A server of the tests' own, of one node."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._home = fetch(environment)
        self.folder = Path(tempfile.mkdtemp(prefix="ganger-opensearch-"))
        self.port, self._transport = _free_port(), _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("config", "data", "logs", "tmp"):
            (self.folder / name).mkdir()
        (self.folder / "config" / "log4j2.properties").write_text(_LOGGING)
        (self.folder / "config" / "opensearch.yml").write_text(self._settings())
        self._account = self._choose_account()

    def url(self, index: str) -> str:
        return f"elasticsearch+http://127.0.0.1:{self.port}/{index}"

    def fresh_url(self) -> str:
        """The URL of an index that no other test has."""
        return self.url(f"t{os.getpid()}-{next(_numbers)}")

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, process_group=0,
                **self._account,
            )  # fmt: skip
        self._await_ready(self._process)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and nobody answers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def _settings(self) -> str:
        return "\n".join([
            "discovery.type: single-node",
            "network.host: 127.0.0.1",
            f"http.port: {self.port}",
            f"transport.port: {self._transport}",
            f"path.data: {self.folder}/data",
            f"path.logs: {self.folder}/logs",
            "cluster.routing.allocation.disk.threshold_enabled: false",
        ])  # fmt: skip

    def _command(self) -> list[str]:
        heap = ["-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        agent = [f"-javaagent:{self._home}/agent/opensearch-agent.jar"] if (self._home / "agent").exists() else []
        paths = [
            f"-Djava.io.tmpdir={self.folder}/tmp",
            f"-Dopensearch.path.home={self._home}",
            f"-Dopensearch.path.conf={self.folder}/config",
        ]
        flags = ["-Dlog4j2.disable.jmx=true", "-Dopensearch.distribution.type=zip", "-Dopensearch.bundled_jdk=false"]
        main = ["-cp", f"{self._home}/lib/*", "org.opensearch.bootstrap.OpenSearch"]
        return ["java", *heap, *agent, *paths, *flags, *main]

    def _choose_account(self) -> dict[str, Any]:
        """OpenSearch refuses to run as root, who has to become somebody else."""
        if os.geteuid() != 0:
            return {}
        entry = pwd.getpwnam("nobody")
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE
        health = f"http://127.0.0.1:{self.port}/_cluster/health?wait_for_status=yellow"
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), urlopen(health, timeout=5):
                return
            time.sleep(0.1)
        raise RuntimeError(f"OpenSearch did not start: {(self.folder / 'log').read_text()[-2_000:]}")


class RunningElastic:
    """A server that somebody else runs, at this URL without an index."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def url(self, index: str) -> str:
        return f"{self._url}/{index}"

    def fresh_url(self) -> str:
        return self.url(f"t{os.getpid()}-{time.time_ns()}")


def fetch(environment: Mapping[str, str]) -> Path:
    """The server's files, unpacked where they stay for the next time. Raises Missing."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise Missing(ADVICE)
    place = Path(environment.get(PLACE) or Path(tempfile.gettempdir()) / "ganger-test-cache")
    home = place / f"opensearch-{VERSION}"
    if not home.exists():
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            _unpack(Path(folder))
            # Another who fetches at the same time may be first: its files are as good.
            with suppress(OSError):
                (Path(folder) / home.name).rename(home)
            Path(folder).chmod(0o755)
    return home


def _unpack(folder: Path) -> None:
    asked = ["mvn", "-B", "-q", _FETCH, f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"]
    fetched = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=600)
    if fetched.returncode != 0:
        raise Missing(f"OpenSearch {VERSION} can not be fetched: {fetched.stdout[-500:]}")
    with zipfile.ZipFile(folder / f"opensearch-{VERSION}.zip") as archive:
        archive.extractall(folder)
    for module in (folder / f"opensearch-{VERSION}" / "modules").iterdir():
        if module.name not in _MODULES:
            shutil.rmtree(module)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
