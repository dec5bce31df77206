"""The work source of a node whose engine is behind a server."""

from collections.abc import Callable, Collection, Sequence

from ganger.assembly.remote.engine import RemoteEngine
from ganger.assembly.source import EngineSource, has_no_plugins
from ganger.core.clock import Clock, Moment
from ganger.core.ids import NodeId
from ganger.core.lease import Lease
from ganger.core.outcome import Release
from ganger.core.task import Claimed, Eager
from ganger.node.source import Finished, Taken


class RemoteSource(EngineSource):
    """As `EngineSource`, with ends of leases by the node's own clock.

    `allowed` are the kinds that the owner of this machine lets a server run on it (None: every kind). The server is
    told, and hands out no others; if it does all the same, they go back and do not run.
    """

    def __init__(
        self,
        engine: RemoteEngine,
        clock: Clock,
        *,
        allowed: Collection[str] | None = None,
        ignore: Collection[str] = (),
        has_plugin: Callable[[str], bool] = has_no_plugins,
    ) -> None:
        super().__init__(engine, clock, ignore=ignore, has_plugin=has_plugin)
        self._far = engine
        self._allowed = None if allowed is None else frozenset(allowed)

    async def take(self, node: NodeId, most: int, *, start: bool, finished: Sequence[Finished] = ()) -> Taken:
        if not most and not finished:
            return Taken(())
        taken = await super().take(node, most, start=start, finished=finished)
        return taken._replace(claimed=await self._sift(taken.claimed))

    async def wait(self, node: NodeId, most: int, *, start: bool, eager: Eager | None = None) -> Sequence[Claimed]:
        return await self._sift(await super().wait(node, most, start=start))

    async def _sift(self, claimed: Sequence[Claimed]) -> Sequence[Claimed]:
        """Those that may run here; the others are given back."""
        if self._allowed is None or not (strange := [one for one in claimed if one.kind not in self._allowed]):
            return claimed
        await self._far.settle([(one, Release()) for one in strange])
        return [one for one in claimed if one.kind in self._allowed]

    async def touch(self, leases: Sequence[Lease], length: int | None = None) -> Sequence[Moment | None]:
        asked = self._clock.now()
        renewed = await self._far.touch(leases, length)
        lost = {index for index, _ in renewed.refused}
        return [
            None if index in lost or left is None else Moment(asked + left) for index, left in enumerate(renewed.left)
        ]
