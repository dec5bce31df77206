"""Questions that conditions ask about the place where a node runs: a file, a port, a URL, a command's exit.

Every answer comes within ten seconds, a command's within its own time. What does not answer is a no; only a question
that can never be asked (a relative path, a scheme that nobody speaks, an address that strangers must not have asked) is
an error. A URL is asked with one GET, under the rules of `outbound.py`.

A question is asked only by a node that would take a task of the condition's queue with its labels, and that runs what
the question is: whoever submits to one queue has no other queue's machines answer.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, assert_never

from ganger.core.errors import BadInput
from ganger.core.queue import Queue
from ganger.node.outbound import Rule, get
from ganger.wire.questions import check_path, check_place
from ganger.wire.specs import CommandExits, FileThere, PlacedProbe, PortAnswers, UrlAnswers, list_askers

PATIENCE: Final = 10.0
COMMANDS_AT_ONCE: Final = 4
FILES_AT_ONCE: Final = 4
_HEADERS: Final = {"User-Agent": "ganger", "Accept": "*/*"}

Run = Callable[[CommandExits], Awaitable[int]]
"""Runs a command within its time: its exit code. Whoever hands it in ends what takes longer."""


class Place(NamedTuple):
    """What the node takes that asks here; None for queues or kinds means all of them."""

    node: str = ""
    queues: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()

    def takes_queue(self, queue: Queue) -> bool:
        wanted = queue.name not in self.ignore if self.queues is None else queue.name in self.queues
        return wanted and queue.takes_node(self.node)


ANYWHERE: Final = Place()
UNTRUSTED: Final = Rule(what="URL", setting="probe_hosts")


class Probes:
    """Asks here, what the place takes. Without `run` commands are left to others. `rule`: which URLs may be asked.

    Close it at the end.
    """

    def __init__(
        self, run: Run | None = None, place: Place = ANYWHERE, *, rule: Rule = UNTRUSTED, patience: float = PATIENCE
    ) -> None:
        self._run = run
        self._place = place
        self._rule = rule
        self._patience = patience
        self._commands = asyncio.Semaphore(COMMANDS_AT_ONCE)
        # A file on a server that does not answer holds its thread: these are apart, so that it holds nobody else's.
        self._threads = ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="probe")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def takes(self, probe: PlacedProbe, queue: Queue, requires: Sequence[str]) -> bool:
        place = self._place
        if not (place.takes_queue(queue) and set(place.labels).issuperset(requires)):
            return False
        if place.kinds is not None and list_askers(probe).isdisjoint(place.kinds):
            return False
        return self._run is not None or not isinstance(probe, CommandExits)

    async def probe(self, probe: PlacedProbe) -> bool:
        """Is it so, here and now? BadInput, NotAllowed: this can never be asked here."""
        match probe:
            case CommandExits():
                return await self._command(probe)
            case FileThere():
                return await self._in_time(self._file(probe))
            case PortAnswers():
                return await self._in_time(_port(probe))
            case UrlAnswers():
                return await self._in_time(self._url(probe))
            case _:
                assert_never(probe)

    async def _in_time(self, question: Awaitable[bool]) -> bool:
        try:
            async with asyncio.timeout(self._patience):
                return await question
        except (OSError, EOFError, TimeoutError):
            # What does not answer is not there.
            return False

    async def _command(self, probe: CommandExits) -> bool:
        if self._run is None:
            raise BadInput("this node runs no commands for conditions")
        async with self._commands:
            return await self._run(probe) == 0

    async def _file(self, probe: FileThere) -> bool:
        check_path(probe.path, "path")
        there = await asyncio.get_running_loop().run_in_executor(self._threads, os.path.exists, probe.path)
        return there is not probe.gone

    async def _url(self, probe: UrlAnswers) -> bool:
        answered = await get(probe.url, _HEADERS, self._rule)
        return answered.is_good if probe.status is None else answered.status == probe.status


async def _port(probe: PortAnswers) -> bool:
    check_place(probe.host, probe.port)
    _, writer = await asyncio.open_connection(probe.host, probe.port)
    writer.transport.abort()
    return True
