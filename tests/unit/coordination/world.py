"""Several processes on one store in memory, in time that passes when nobody has anything to do."""

import asyncio
from collections.abc import Awaitable, Callable

from ganger.coordination.backend import Document, Reading, Version, Written
from ganger.coordination.backends.memory import MemoryBackend
from ganger.coordination.coordination import Coordination
from ganger.core.errors import StoreUnavailable
from ganger.testing import FakeClock, SeededEntropy
from tests.servers.virtual import run_virtual


class Wire(MemoryBackend):
    """A backend behind a wire that can be cut, before or behind the store, and that counts."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.cut = False
        self.loses_answers = False
        self.calls = {"read": 0, "write": 0}

    async def read(self, name: str) -> Reading:
        self.calls["read"] += 1
        self._check_wire()
        return await super().read(name)

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        self.calls["write"] += 1
        self._check_wire()
        written = await super().write(name, document, version)
        if self.loses_answers:
            raise StoreUnavailable("no answer")
        return written

    def _check_wire(self) -> None:
        if self.cut:
            raise StoreUnavailable("the wire is cut")


class World:
    """Several processes on one store, each with its own wire."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.seeds = iter(range(1, 1_000))

    def start(self) -> None:
        self.first = Wire(self.clock)
        self.backend = self.first

    def process(self) -> tuple[Coordination, Wire]:
        wire = Wire(self.clock)
        wire._documents, wire._listeners = self.first._documents, self.first._listeners
        return Coordination(wire, self.clock, SeededEntropy(next(self.seeds))), wire

    def run(self, story: "Callable[[World], Awaitable[None]]") -> None:
        async def main() -> None:
            self.start()
            await story(self)

        run_virtual(self.clock, main())


def tell(story: Callable[[World], Awaitable[None]]) -> None:
    World().run(story)


async def pass_time(clock: FakeClock, milliseconds: int) -> None:
    end = clock.now() + milliseconds
    while clock.now() < end:  # noqa: ASYNC110 - the loop turns the clock
        await asyncio.sleep((end - clock.now()) / 1_000)
