"""A console for tests of commands: a real store in a folder of its own, and a node in the test's hands."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from ganger.assembly.embedded import open_engine
from ganger.cli.main import main
from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Succeed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim

T = TypeVar("T")


class Console:
    """Runs commands as a person would, with the store named once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "tasks.db"
        self._runner = CliRunner()

    @property
    def url(self) -> str:
        return f"sqlite:{self.database}"

    def run(self, *words: object, exits: int = 0, types: str | None = None) -> Result:
        """Run a command and check the code that it exits with."""
        given = [str(word) for word in words]
        result = self._runner.invoke(main, given, input=types, env={"GANGER_STORE": self.url})
        assert result.exit_code == exits, (given, result.exit_code, result.output, result.exception)
        return result

    def out(self, *words: object, exits: int = 0, types: str | None = None) -> str:
        return self.run(*words, exits=exits, types=types).stdout.strip()

    def err(self, *words: object, exits: int = 0, types: str | None = None) -> str:
        return self.run(*words, exits=exits, types=types).stderr.strip()

    def lines(self, *words: object, exits: int = 0) -> list[dict[str, Any]]:
        """The lines of JSON that a command prints."""
        return [json.loads(line) for line in self.run(*words, exits=exits).stdout.splitlines()]

    def submit(self, *words: object) -> int:
        return int(self.out("submit", *words))

    def act(self, body: Callable[[Engine], Awaitable[T]]) -> T:
        """Do something that commands cannot, on the same store."""

        async def run() -> T:
            async with open_engine(self.url, upkeep=False) as engine:
                return await body(engine)

        return asyncio.run(run())

    def work(self, *, code: int = 1, output: bytes = b"", most: int = 1) -> list[TaskId]:
        """Take tasks of every queue and end them with this code, after they wrote this."""

        async def body(engine: Engine) -> list[TaskId]:
            node = await engine.nodes.register(Registration("worker", "token"))
            queues = tuple(queue.id for queue in await engine.queues.all())
            claimed = await engine.claim(Claim(node.id, queues, most=most, start=True))
            for task in claimed if output else ():
                await engine.append_output(task.lease, "mixedout", 0, output)
            await engine.settle([(task, Succeed() if code == 1 else Fail(code, again=False)) for task in claimed])
            return [task.id for task in claimed]

        return self.act(body)
