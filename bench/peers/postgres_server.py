"""A PostgreSQL server of the run's own: made in a folder, reached by a unix socket, stopped at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.settings import PostgresSettings
from bench.work import NotMeasuredError

USER = "bench"

_ADVICE = "PostgreSQL is missing: install it (Debian: apt-get install postgresql)"
_START_DEADLINE = 60.0
_STOP_DEADLINE = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """Who the server runs as; nothing stands for the user that runs this program."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None


@contextmanager
def run_server(settings: PostgresSettings, beside: Path) -> Iterator[str]:
    """The folder of the server's socket; the server and its files are gone afterwards.

    PostgreSQL refuses to run as root, so the folder lies beside the run's own, where another user can reach it.
    """
    binaries = find_binaries()
    folder = Path(tempfile.mkdtemp(prefix="bench-pg-", dir=beside))
    try:
        account = choose_account()
        if account.user is not None and account.group is not None:
            os.chown(folder, account.user, account.group)
        _initialise(binaries, folder, account)
        with _serving(binaries, folder, account, settings):
            yield str(folder)
    finally:
        shutil.rmtree(folder)


def find_binaries(debian: Path = Path("/usr/lib/postgresql")) -> Path:
    """The folder of initdb and postgres: Debian's newest, or that of the PATH."""
    installed = sorted(debian.glob("*/bin/initdb"), key=_major_version)
    if installed:
        return installed[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise NotMeasuredError(_ADVICE)
    return Path(on_path).resolve().parent


def _major_version(initdb: Path) -> float:
    try:
        return float(initdb.parts[-3])
    except ValueError:
        return 0.0


def choose_account() -> Account:
    """Whoever this is; but root has to become somebody else."""
    if os.geteuid() != 0:
        return Account()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, ())
    raise NotMeasuredError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _spawn(command: Sequence[str], folder: Path, account: Account) -> subprocess.Popen[bytes]:
    """Start it in a group of its own, so that an interrupt typed at the terminal does not reach it first."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            process_group=0,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
        )


def _initialise(binaries: Path, folder: Path, account: Account) -> None:
    options = ["-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale"]
    if _spawn([str(binaries / "initdb"), *options], folder, account).wait() != 0:
        raise NotMeasuredError(f"initdb failed: {_last_words(folder)}")


def _last_words(folder: Path) -> str:
    return (folder / "log").read_text().strip().rpartition("\n")[2]


@contextmanager
def _serving(binaries: Path, folder: Path, account: Account, settings: PostgresSettings) -> Iterator[None]:
    server = _spawn([str(binaries / "postgres"), *server_arguments(folder, settings)], folder, account)
    try:
        _await_ready(binaries, folder, server)
        yield
    finally:
        _stop(server)


def server_arguments(folder: Path, settings: PostgresSettings) -> Sequence[str]:
    parameters = {"listen_addresses": "", "unix_socket_directories": str(folder), **settings.parameters}
    options = [part for name, value in parameters.items() for part in ("-c", f"{name}={value}")]
    return ["-D", str(folder / "data"), *options]


def _await_ready(binaries: Path, folder: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_DEADLINE
    asking = [str(binaries / "pg_isready"), "-q", "-h", str(folder), "-U", USER, "-d", "postgres"]
    while subprocess.run(asking, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise NotMeasuredError(f"PostgreSQL did not start: {_last_words(folder)}")
        time.sleep(0.05)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Ask for a fast shutdown; a server that does not follow is killed."""
    if server.poll() is not None:
        return
    server.send_signal(signal.SIGINT)
    try:
        server.wait(_STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
