"""A loop whose time passes when nobody has anything to do: hours in milliseconds, always in the same order."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from ganger.testing import FakeClock

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting it turns the clock."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._left = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nobody will ever wake this loop")
        if not ready and timeout:
            passed = timeout * 1_000 + self._left
            self._left = passed - int(passed)
            self._clock.advance(max(1, int(passed)))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        self._virtual = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self._virtual.now() / 1_000


def run_virtual(clock: FakeClock, main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
