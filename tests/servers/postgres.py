"""A PostgreSQL server for tests: made in a folder, reached by a unix socket, killed and started again at will."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import psutil

USER = "tests"
RUNNING = "GANGER_TEST_POSTGRES"
"""The URL of a server that runs already, to be used instead of one of the tests' own."""
ADVICE = "PostgreSQL is missing: install it (Debian: apt-get install postgresql)"
_PATIENCE = 60.0

QUICK = MappingProxyType({"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
"""A test kills processes, never the machine's power: what the kernel has is as good as what the disk has."""


class Missing(Exception):
    """There is no PostgreSQL on this machine."""


class PostgresServer:
    """A server of the tests' own."""

    def __init__(
        self, parameters: Mapping[str, str] = QUICK, follows: "PostgresServer | None" = None, name: str = ""
    ) -> None:
        self._binaries = find_binaries()
        self._parameters = parameters
        self.folder = Path(tempfile.mkdtemp(prefix="ganger-pg-"))
        self._account = _choose_account()
        self._process: subprocess.Popen[bytes] | None = None
        if "user" in self._account:
            os.chown(self.folder, self._account["user"], self._account["group"])
        program, options = "initdb", ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        if follows is not None:
            slot = ["-C", "-S", name, "-c", "fast", "-R", "-N", "-X", "stream"]
            program, options = "pg_basebackup", ["-h", str(follows.folder), "-U", USER, *slot]
        if self._spawn([str(self._binaries / program), "-D", str(self.folder / "data"), *options]).wait() != 0:
            raise RuntimeError(f"{program} failed: {self._last_words()}")

    def url(self, schema: str, database: str = "postgres") -> str:
        return f"postgresql://{USER}@/{database}?host={quote(str(self.folder))}&schema={schema}"

    def start(self) -> None:
        parameters = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "max_connections": "200"}
        options = [
            part for name, value in {**parameters, **self._parameters}.items() for part in ("-c", f"{name}={value}")
        ]
        self._process = self._spawn([str(self._binaries / "postgres"), "-D", str(self.folder / "data"), *options])
        self._await_ready(self._process)

    def kill(self) -> None:
        """SIGKILL, to the server and all its processes."""
        if self._process is not None:
            doomed = self._processes()
            for each in doomed:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            self._process.wait()
            psutil.wait_procs(doomed, _PATIENCE)
            self._process = None

    def pause(self) -> None:
        """SIGSTOP to all its processes: connections stay open, and nobody answers."""
        for each in self._processes():
            each.suspend()

    def resume(self) -> None:
        for each in self._processes():
            each.resume()

    def copy(self, name: str) -> "PostgresServer":
        """A hot standby of this one, which follows it; to be started."""
        return PostgresServer(self._parameters, follows=self, name=name)

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        main = psutil.Process(self._process.pid)
        return [main, *main.children(recursive=True)]

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder)

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, process_group=0, **self._account
            )  # fmt: skip

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE
        asking = [str(self._binaries / "pg_isready"), "-q", "-h", str(self.folder), "-U", USER, "-d", "postgres"]
        while subprocess.run(asking, check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {self._last_words()}")
            time.sleep(0.02)

    def _last_words(self) -> str:
        return (self.folder / "log").read_text().strip().rpartition("\n")[2]


class RunningServer:
    """A server that somebody else runs, at this URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self, schema: str) -> str:
        return f"{self._url}{'&' if '?' in self._url else '?'}schema={schema}"


def find_binaries(debian: Path = Path("/usr/lib/postgresql")) -> Path:
    """The folder of initdb and postgres: Debian's newest, or that of the PATH."""
    installed = sorted(debian.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not installed and on_path is None:
        raise Missing(ADVICE)
    return installed[-1].parent if installed else Path(str(on_path)).resolve().parent


def _choose_account() -> dict[str, Any]:
    """PostgreSQL refuses to run as root, who has to become somebody else."""
    if os.geteuid() != 0:
        return {}
    entry = next(entry for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody"))
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}


async def drop_schema(url: str) -> None:
    """Take away what a test made, where a test makes many."""
    import asyncpg

    from ganger.databases.postgres import read_address

    address = read_address(url)
    connection = await asyncpg.connect(address.url)
    try:
        await connection.execute("SET client_min_messages = warning")
        await connection.execute(f"DROP SCHEMA {address.schema} CASCADE")
    finally:
        await connection.close()
