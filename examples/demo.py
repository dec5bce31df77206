"""Watch Ganger keep its promise: workers are killed and stopped while they work, and the books balance.

Run it with `make demo`. It makes a fresh file in a temporary folder, submits tasks, and lets two processes run them.
One is killed with SIGKILL, the other is stopped past its lease and wakes up believing that it still holds its tasks.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ganger.core.ids import NodeId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Outcome, Succeed
from ganger.core.state import Status
from ganger.core.task import Claimed, NewTask
from ganger.databases.sqlite import Rank
from ganger.engine.engine import Engine
from ganger.engine.store import Claim, Query
from ganger.engine.stores.sqlite import SqliteStore
from ganger.engine.upkeep import keep_up
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

TASKS = 3_000
LEASE_MS = 1_500
TASK_SECONDS = 0.002
BATCH = 20


@contextlib.asynccontextmanager
async def opened(folder: Path, rank: Rank) -> AsyncIterator[Engine]:
    clock, entropy = SystemClock(), SystemEntropy()
    store = await SqliteStore.open(folder / "demo.db", clock, entropy, rank=rank)
    engine = Engine(store, clock, entropy)
    try:
        yield engine
    finally:
        await engine.close()
        await store.close()


async def work(folder: Path, name: str) -> None:
    """One worker process: claim, run, settle, beat; and write down each run and each refusal."""
    async with opened(folder, Rank.NODE) as engine:
        queue = await engine.queues.named("demo")
        node = await engine.nodes.register(Registration(name, name, lease=LEASE_MS))
        beating = asyncio.ensure_future(beat(engine, node.id, name))
        claim = Claim(node.id, (queue.id,), BATCH, start=True)
        claimed = await engine.wait_claim(claim, 60)
        with (folder / f"{name}.log").open("ab", buffering=0) as log:
            while claimed:
                claimed = await turn(engine, claim, claimed, log.fileno())
        beating.cancel()


async def turn(engine: Engine, claim: Claim, claimed: list[Claimed], log: int) -> list[Claimed]:
    ran: list[tuple[Claimed, Outcome]] = []
    for one in claimed:
        os.write(log, f"run {one.id} {one.fence}\n".encode())
        await asyncio.sleep(TASK_SECONDS)
        ran.append((one, Succeed()))
    settled = await engine.settle(ran)
    for index, verdict in settled.refused:
        os.write(log, f"{verdict} {claimed[index].id} {claimed[index].fence}\n".encode())
    if settled.refused:
        return []
    return await engine.wait_claim(claim, 3)


async def beat(engine: Engine, node: NodeId, token: str) -> None:
    while True:
        await asyncio.sleep(LEASE_MS / 4_000)
        await engine.nodes.beat(node, token)


class Show:
    """The demonstration, seen from outside the workers."""

    def __init__(self, console: Console, folder: Path, engine: Engine) -> None:
        self.console = console
        self.folder = folder
        self.engine = engine
        self.workers: dict[str, asyncio.subprocess.Process] = {}

    async def hire(self, name: str) -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, __file__, "worker", name, str(self.folder))
        self.workers[name] = process
        self.console.print(f"[green]start[/]  worker {name}, process {process.pid}")

    def send(self, name: str, signal_: signal.Signals, words: str) -> None:
        self.workers[name].send_signal(signal_)
        self.console.print(f"[red]{signal_.name}[/] worker {name}: {words}")

    async def settled(self) -> int:
        counts, _ = await self.engine.counts()
        return sum(each.by_status.get(Status.SUCCEEDED, 0) for each in counts)

    async def reach(self, share: float, progress: Progress, bar: TaskID) -> None:
        """Show the bar until so much is done."""
        deadline = time.monotonic() + 45
        while (done := await self.settled()) < TASKS * share and time.monotonic() < deadline:
            progress.update(bar, completed=done)
            await asyncio.sleep(0.05)
        progress.update(bar, completed=done)

    async def play(self) -> list[TaskId]:
        queue = await self.engine.queues.create("demo", by="demo")
        ids = (await self.engine.submit([NewTask(queue.id, "function", key=f"demo-{n}") for n in range(TASKS)])).ids
        self.console.print(f"[green]submit[/] {TASKS} tasks; they were on disk when the call returned")
        await self.hire("Ada")
        await self.hire("Bob")
        columns = (TextColumn("       settled"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=not self.console.is_terminal) as progress:
            bar = progress.add_task("settled", total=TASKS)
            await self.reach(0.2, progress, bar)
            self.send("Ada", signal.SIGKILL, "dead on the spot, with tasks in its hands")
            await self.reach(0.3, progress, bar)
            self.send("Bob", signal.SIGSTOP, f"frozen past its lease of {LEASE_MS / 1000:g} s")
            await self.hire("Cleo")
            await asyncio.sleep(LEASE_MS / 1000 * 1.5)
            self.send("Bob", signal.SIGCONT, "wakes up and settles what it thinks it holds")
            await self.reach(1.0, progress, bar)
        await asyncio.gather(*(process.wait() for process in self.workers.values()))
        return ids


def read_logs(folder: Path) -> tuple[Counter[int], int]:
    runs: Counter[int] = Counter()
    stale = 0
    for log in folder.glob("*.log"):
        for line in log.read_text().splitlines():
            word, task, _ = line.split()
            runs[int(task)] += word == "run"
            stale += word == "stale"
    return runs, stale


async def balance(show: Show, ids: list[TaskId]) -> bool:
    """Compare what was submitted, what the store says, and what the workers wrote down themselves."""
    runs, stale = read_logs(show.folder)
    found = {task.id: task async for task in show.engine.walk(Query())}
    twice = {task: n for task, n in runs.items() if n > 1}
    explained = sum(found[TaskId(task)].timeouts > 0 for task in twice)
    lost = [task for task in ids if found.get(task) is None or found[task].status != Status.SUCCEEDED]
    table = Table(title="The books", show_header=False, title_style="bold")
    for name, value in (
        ("submitted and acknowledged", len(ids)),
        ("ended, each exactly once", len(ids) - len(lost)),
        ("run more than once", len(twice)),
        ("  because a lease was lost", explained),
        ("stale settles refused", stale),
        ("never asked for, but there", len(found.keys() - set(ids))),
    ):
        table.add_row(name, f"{value:,}")
    table.add_row("[bold]lost[/]", f"[bold {'red' if lost else 'green'}]{len(lost)}[/]")
    show.console.print(table)
    return not lost and len(twice) == explained and not found.keys() - set(ids)


async def demonstrate() -> bool:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="ganger-demo-") as name:
        folder = Path(name)
        async with opened(folder, Rank.SERVER) as engine:
            upkeep = keep_up(engine.store, SystemClock())
            await upkeep.start()
            show = Show(console, folder, engine)
            try:
                good = await balance(show, await show.play())
            finally:
                for process in show.workers.values():
                    if process.returncode is None:
                        process.kill()
                await upkeep.stop()
    console.print("[green]Nothing was lost.[/]" if good else "[red]The books do not balance.[/]")
    return good


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        asyncio.run(work(Path(sys.argv[3]), sys.argv[2]))
    else:
        sys.exit(0 if asyncio.run(demonstrate()) else 1)
