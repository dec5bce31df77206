"""The processes of a test: forked from a warm server, spoken to over a pipe, and gone when the test is over."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

import psutil

PATIENCE: Final = 60.0
_WARM: Final = ["pytest", "tests.system.harness_store", "tests.chaos.worker"]
"""What the server has imported when it forks: a process of a test then starts in milliseconds."""

Role = Callable[..., Awaitable[None]]


class Line:
    """The process's end of the pipe to the test."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self._pipe = pipe

    def say(self, *words: Any) -> None:
        self._pipe.send(words)

    async def hear(self) -> tuple[Any, ...]:
        # On the loop, not on a thread: a role that fails must end its process, and a thread that waits would keep it.
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pipe.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._pipe.fileno())
        words: tuple[Any, ...] = self._pipe.recv()
        return words


class Member:
    """The test's end: one process."""

    def __init__(self, process: BaseProcess, pipe: "Connection[Any, Any]") -> None:
        self.process = process
        self.pipe = pipe

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def sentinel(self) -> int:
        return self.process.sentinel

    def tell(self, *words: Any) -> None:
        self.pipe.send(words)

    def hear(self, patience: float = PATIENCE) -> tuple[Any, ...]:
        """The next words; a process that died or is silent instead fails the test."""
        assert self.pipe.poll(patience), f"process {self.pid} says nothing"
        try:
            words: tuple[Any, ...] = self.pipe.recv()
        except EOFError:
            self.process.join(PATIENCE)
            raise AssertionError(f"process {self.pid} ended with {self.process.exitcode}") from None
        return words

    def ask(self, *words: Any) -> tuple[Any, ...]:
        self.tell(*words)
        return self.hear()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.outlive()

    def outlive(self, patience: float = PATIENCE) -> int | None:
        """Wait for its end; its exit code."""
        assert wait([self.process.sentinel], patience), f"process {self.pid} does not end"
        self.process.join()
        return self.process.exitcode

    def pause(self) -> None:
        """Stop it, every thread of it, before this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        process = psutil.Process(self.pid)
        while process.status() != psutil.STATUS_STOPPED:
            os.sched_yield()

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def dismiss(self) -> None:
        """End it, in whatever state it is."""
        if self.process.exitcode is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.join()
        self.process.close()
        self.pipe.close()


class Crew:
    """The processes of a test."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_WARM)
        self._members: list[Member] = []

    def start(self, role: Role, *args: Any) -> Member:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_play, args=(role, theirs, args), daemon=True)
        process.start()
        theirs.close()
        member = Member(process, ours)
        self._members.append(member)
        return member

    def dismiss(self) -> None:
        while self._members:
            self._members.pop().dismiss()

    def bury(self, member: Member) -> None:
        """Forget one that is dead."""
        self._members.remove(member)
        member.dismiss()


@contextmanager
def crew() -> Iterator[Crew]:
    hired = Crew()
    try:
        yield hired
    finally:
        hired.dismiss()


def _play(role: Role, pipe: "Connection[Any, Any]", args: tuple[Any, ...]) -> None:
    async def run() -> None:
        await role(Line(pipe), *args)

    asyncio.run(run())
