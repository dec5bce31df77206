"""A node as far as its guardian knows one: a process that starts what it is told, line by line, and renews nothing.

It reads JSON lines {"task", "script", "trust", "grace"} and answers {"task", "pid", "until"}; for each end it says
{"task", "outcome"}.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from ganger.node.executors.command import CommandExecutor
from ganger.node.guardian.run import GuardedRun
from ganger.node.isolation import Isolation
from tests.unit.node.guarded import PATIENCE, assign, begin, make_executor, shell

ROOT = Path(__file__).parents[2]


async def live(folder: Path, epoch: int, isolation: Isolation) -> None:
    made = make_executor(folder, epoch=epoch, isolation=isolation)
    watching = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        started = await obey(made, json.loads(line))
        watching.add(asyncio.create_task(tell_end(started)))


async def obey(made: CommandExecutor, wish: dict[str, Any]) -> GuardedRun:
    spec = shell(wish["script"], grace=wish.get("grace", 5_000))
    assignment = assign(wish["task"], spec, trust=wish.get("trust", 60_000))
    started = await begin(made, assignment)
    tell(task=started.task, pid=started.pid, until=assignment.trusted_until)
    return started


async def tell_end(started: GuardedRun) -> None:
    ended = await started.ended()
    tell(task=started.task, outcome=type(ended.outcome).__name__)


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


class Node:
    """The test's end of it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, folder: Path, *, epoch: int = 1, isolation: Isolation = Isolation.AUTO) -> "Node":
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.system.guarded_node", str(folder), str(epoch), isolation,
                stdin=PIPE, stdout=PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        )  # fmt: skip

    async def begin(self, task: int, script: str, **more: int) -> tuple[int, int]:
        """The pid of the command, and until when its lease is trusted."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"task": task, "script": script, **more}).encode() + b"\n")
        answer = await self.hear()
        return int(answer["pid"]), int(answer["until"])

    async def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            heard: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return heard

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), int(sys.argv[2]), Isolation(sys.argv[3])))
