"""A process that uses the counter's file as it is told, line by line; and the test's end of it."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ganger.core.errors import GangerError
from ganger.databases.sqlite import Limits, Rank, SharedFile
from tests.unit.databases.counter import MIGRATIONS, Line, open_counter, until

ROOT = Path(__file__).parents[3]
PATIENCE = 60


@dataclass
class Troupe:
    """The actors of a test."""

    actors: list["Actor"] = field(default_factory=list)

    async def hire(self, path: Path | None = None, **opening: Any) -> "Actor":
        """A new process; with a path it opens the file at once."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.unit.databases.actor",
            stdin=PIPE,
            stdout=PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            limit=1 << 24,
        )
        actor = Actor(process)
        self.actors.append(actor)
        if path is not None:
            reply = await actor.ask("open", path=str(path), **opening)
            assert reply == {"opened": True}, reply
        return actor


@contextlib.asynccontextmanager
async def troupe() -> AsyncIterator[Troupe]:
    """Actors that are gone when the test is over."""
    company = Troupe()
    try:
        yield company
    finally:
        await asyncio.gather(*(actor.end() for actor in company.actors))


class Actor:
    """The test's end."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._handle = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ask(self, do: str, **what: Any) -> dict[str, Any]:
        await self.tell(do, **what)
        return await self.hear()

    async def tell(self, do: str, **what: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")
        await self.process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """The next answer; nothing if the process died instead."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
        return json.loads(line) if line else {}

    async def owns(self) -> bool:
        return bool((await self.ask("owns"))["owns"])

    async def come_to_own(self) -> None:
        """Wait until the process owns the file."""
        async with asyncio.timeout(PATIENCE):
            while not await self.owns():  # noqa: ASYNC110 - another process sets no event here
                await asyncio.sleep(0.002)

    def kill(self, sign: int = signal.SIGKILL) -> None:
        # It may have died by itself in the meantime.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, sign)

    async def stop(self) -> None:
        """Stop the process, and wait until it stands."""
        self.kill(signal.SIGSTOP)
        await until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)

    async def end(self) -> None:
        self.kill(signal.SIGCONT)
        self.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await self.process.wait()
        os.close(self._handle)


class Script:
    """The process's end."""

    def __init__(self) -> None:
        self.shared: SharedFile | None = None
        self.heard: list[str] = []

    async def play(self) -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            told = json.loads(line)
            try:
                reply = await getattr(self, f"do_{told.pop('do')}")(**told)
            except GangerError as error:
                reply = {"error": error.code, "message": error.message, "fields": dict(error.fields)}
            print(json.dumps(reply), flush=True)

    async def do_open(
        self,
        path: str,
        rank: int = 1,
        die_at: tuple[str, int] | None = None,
        limits: dict[str, int] | None = None,
        migrations: int = 2,
        **more: Any,
    ) -> dict[str, Any]:
        self.shared = await open_counter(
            Path(path),
            rank=Rank(rank),
            probe=Deadly(*die_at) if die_at else lambda name: None,
            limits=Limits(**(limits or {})),
            migrations=MIGRATIONS[:migrations],
            **more,
        )
        return {"opened": True}

    @property
    def file(self) -> SharedFile:
        assert self.shared is not None
        return self.shared

    async def do_owns(self) -> dict[str, Any]:
        return {"owns": self.file.owns}

    async def do_call(self, operation: str, request: Any = None) -> dict[str, Any]:
        value = await self.file.call(operation, Line(*request) if request else None)
        return {"value": value}

    async def do_post(self, who: str, count: int) -> dict[str, Any]:
        """Hand in so many lines without waiting for their replies."""
        await asyncio.to_thread(lambda: [self.file.post_blocking("submit", Line(who, n)) for n in range(count)])
        return {"posted": count}

    async def do_read(self, sql: str) -> dict[str, Any]:
        return {"rows": await self.file.read(lambda connection: connection.execute(sql).fetchall())}

    async def do_listen(self, topics: list[str]) -> dict[str, Any]:
        self.file.listen(topics, self.heard.append)
        return {"listening": topics}

    async def do_heard(self, topic: str, times: int = 1) -> dict[str, Any]:
        await until(lambda: self.heard.count(topic) >= times)
        return {"heard": len(self.heard)}

    async def do_forget(self) -> dict[str, Any]:
        self.heard.clear()
        return {}

    async def do_write(
        self,
        who: str,
        log: str,
        *,
        count: int = 0,
        seconds: float = 0,
        width: int = 1,
        operation: str = "submit",
        size: int = 0,
    ) -> dict[str, Any]:
        """Write lines, so many or so long, and note each in the log before it is asked for and when it is done."""
        work = Work(self.file, who, operation, size, count, time.monotonic() + seconds if seconds else None)
        notes = await asyncio.to_thread(Path(log).open, "a", buffering=1)
        await asyncio.gather(*(work.write(notes) for _ in range(width)))
        notes.close()
        return {"done": work.done, "errors": work.errors, "slowest_ms": work.slowest * 1000}

    async def do_fork(self) -> dict[str, Any]:
        """Fork a child that tries the handle and tells what it got."""
        ear, mouth = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ear)
            os.write(mouth, self._try_in_child().encode())
            os._exit(0)
        os.close(mouth)
        got = await asyncio.to_thread(os.read, ear, 1000)
        os.close(ear)
        await asyncio.to_thread(os.waitpid, pid, 0)
        return {"got": got.decode()}

    def _try_in_child(self) -> str:
        try:
            return str(self.file.call_blocking("count", None, timeout=5))
        except GangerError as error:
            return error.code

    async def do_leave_child(self) -> dict[str, Any]:
        """Fork a child that does nothing for a long time."""
        pid = os.fork()
        if pid == 0:
            os.closerange(0, 3)
            signal.alarm(PATIENCE)
            signal.pause()
        return {"pid": pid}

    async def do_wait(self, seconds: float) -> dict[str, Any]:
        await asyncio.sleep(seconds)
        return {}

    async def do_cpu(self, seconds: float) -> dict[str, Any]:
        """How much CPU this process uses while it does nothing."""
        before = sum(os.times()[:2])
        switches = self._switches()
        await asyncio.sleep(seconds)
        return {"cpu": sum(os.times()[:2]) - before, "switches": self._switches() - switches}

    def _switches(self) -> int:
        """How often the thread that serves the file went to sleep."""
        (serving,) = (each.native_id for each in threading.enumerate() if each.name == "ganger-counter.db")
        status = Path(f"/proc/self/task/{serving}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    async def do_limit_descriptors(self, more: int) -> dict[str, Any]:
        """Allow this process so many descriptors beyond those that it has."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + more, hard))
        return {}

    async def do_close(self) -> dict[str, Any]:
        await self.file.close()
        return {"closed": True}


class Deadly:
    """A probe that kills its process when it comes by a point for the nth time."""

    def __init__(self, name: str, times: int) -> None:
        self.name = name
        self.left = times

    def __call__(self, name: str) -> None:
        if name == self.name:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Work:
    shared: SharedFile
    who: str
    operation: str
    size: int
    count: int
    until: float | None
    asked: int = 0
    done: int = 0
    slowest: float = 0
    errors: list[str] = field(default_factory=list)

    async def write(self, notes: Any) -> None:
        while self.asked < self.count if self.until is None else time.monotonic() < self.until:
            n = self.asked
            self.asked += 1
            notes.write(f"ask {n}\n")
            start = time.monotonic()
            try:
                await self.shared.call(self.operation, Line(self.who, n, self.size))
            except GangerError as error:
                self.errors.append(error.code)
                continue
            finally:
                self.slowest = max(self.slowest, time.monotonic() - start)
            notes.write(f"did {n}\n")
            self.done += 1


def read_log(log: Path) -> tuple[set[int], set[int]]:
    """What a writer asked for, and what it was told is done; a last line that was cut off is left out."""
    notes = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return {int(n) for what, n in notes if what == "ask"}, {int(n) for what, n in notes if what == "did"}


if __name__ == "__main__":
    asyncio.run(Script().play())
