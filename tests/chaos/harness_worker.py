"""A process that uses a store as it is told, line by line, and the test's end of it.

Orders that are sent while the process is stopped wait in its pipe: when it goes on, it carries them out believing what
it believed before.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

import ganger
from ganger.core.clock import Wall
from ganger.core.errors import GangerError, decode, encode
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.stores.sqlite.store import OPERATIONS
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 60
_TYPES: Final = {operation.name: (operation.request, operation.reply) for operation in OPERATIONS}


class ShiftedClock(SystemClock):
    """The machine's clocks, with somebody's hand on the wall clock."""

    def __init__(self) -> None:
        self.shift = 0

    def wall(self) -> Wall:
        return Wall(super().wall() + self.shift)


class Order(msgspec.Struct):
    """`shift` moves the wall clock of the process; anything else is an operation of the store."""

    do: str
    request: msgspec.Raw = msgspec.Raw(b"null")


class Answer(msgspec.Struct):
    """What came of an order, between two moments of the boot clock in nanoseconds."""

    called: int
    returned: int
    reply: msgspec.Raw = msgspec.Raw(b"null")
    error: tuple[str, str, dict[str, Any]] | None = None


class Heard(msgspec.Struct, frozen=True):
    """An answer as the test sees it: a value or an error."""

    called: int
    returned: int
    value: Any


@dataclass
class Crew:
    """The processes of a test: all are gone when it is over."""

    workers: list["Worker"] = field(default_factory=list)

    async def hire(
        self, path: Path, *, module: str = "tests.chaos.harness_worker", arguments: tuple[str, ...] = ()
    ) -> "Worker":
        places = os.pathsep.join([str(Path(ganger.__file__).parents[1]), str(ROOT)])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, str(path), *arguments,
            stdin=PIPE, stdout=PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": places}, limit=1 << 24,
        )  # fmt: skip
        worker = Worker(process)
        self.workers.append(worker)
        return worker


@asynccontextmanager
async def crew() -> AsyncIterator[Crew]:
    company = Crew()
    try:
        yield company
    finally:
        await asyncio.gather(*(worker.end() for worker in company.workers))


class Worker:
    """The test's end of the pipe."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def ask(self, do: str, request: Any = None) -> Any:
        """The value; an error of the store is raised."""
        await self.tell(do, request)
        heard = await self.hear(do)
        if isinstance(heard.value, GangerError):
            raise heard.value
        return heard.value

    async def tell(self, do: str, request: Any = None) -> None:
        assert self.process.stdin is not None
        order = Order(do, msgspec.Raw(msgspec.json.encode(request)))
        self.process.stdin.write(msgspec.json.encode(order) + b"\n")
        await self.process.stdin.drain()

    async def hear(self, do: str) -> Heard:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
        answer = msgspec.json.decode(line, type=Answer)
        if answer.error is not None:
            return Heard(answer.called, answer.returned, decode(*answer.error))
        kind = _TYPES[do][1] if do in _TYPES else Any
        return Heard(answer.called, answer.returned, msgspec.json.decode(answer.reply, type=kind))

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    async def end(self) -> None:
        if self.process.returncode is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await self.process.wait()


def boot_time() -> int:
    """Nanoseconds of the clock that leases live on, the same in every process of the machine."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


async def obey(path: Path) -> None:
    """The process: open the store, say so, and do what the lines say until they end."""
    clock = ShiftedClock()
    store = await SqliteStore.open(path, clock, SystemEntropy())
    loop = asyncio.get_running_loop()
    _say(Answer(boot_time(), boot_time()))
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        order = msgspec.json.decode(line, type=Order)
        if order.do == "shift":
            clock.shift = msgspec.json.decode(order.request, type=int)
            _say(Answer(boot_time(), boot_time()))
        else:
            _say(await _carry_out(store, order))
    await store.close()


async def _carry_out(store: SqliteStore, order: Order) -> Answer:
    request = msgspec.json.decode(order.request, type=_TYPES[order.do][0])
    called = boot_time()
    try:
        reply = await store.file.call(order.do, request)
    except GangerError as error:
        return Answer(called, boot_time(), error=encode(error))
    return Answer(called, boot_time(), msgspec.Raw(msgspec.json.encode(reply)))


def _say(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(obey(Path(sys.argv[1])))
