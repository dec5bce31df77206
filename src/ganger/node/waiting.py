"""What an executor cannot begin does not wait here for long: it goes back, for others may have a slot."""

import asyncio
from collections.abc import Callable, Sequence

from ganger.node.hands import Hand, Hands
from ganger.node.options import NodeOptions


class Waits:
    """`back` is called with what was there at the last look and waits for a slot still, the last that came first."""

    def __init__(self, options: NodeOptions, hands: Hands, back: Callable[[Sequence[Hand]], None]) -> None:
        self._options, self._hands, self._back = options, hands, back
        self._waited: list[Hand] = []
        self._timer: asyncio.TimerHandle | None = None

    def look_soon(self) -> None:
        if self._timer is None and self._find():
            self._timer = asyncio.get_running_loop().call_later(self._options.patience / 1000, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _find(self) -> list[Hand]:
        """What has not begun and has no slot: the first ones may have one, and be on their way to it."""
        held = self._hands.held.values()
        waiting = [hand for hand in held if hand.executor is not None and not hand.has_begun]
        return waiting[max(0, self._options.slots - (len(held) - len(waiting))) :]

    def _look(self) -> None:
        self._timer = None
        waiting = self._find()
        late, self._waited = [hand for hand in reversed(waiting) if hand in self._waited], waiting
        if late:
            self._back(late)
        self.look_soon()
