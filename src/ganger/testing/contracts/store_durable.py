"""What a durable store finds when it is opened again. A store that is not durable declares it, and is not asked."""

import asyncio

import pytest

from ganger.core.audit import verify
from ganger.core.errors import NodeGone
from ganger.core.graph import Edge
from ganger.core.ids import Position, TaskId
from ganger.core.node import NodeState
from ganger.core.state import Status, Verdict, move
from ganger.core.task import Claimed
from ganger.engine.store import Submission
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.scene import Scene, StoreContract, append, plain, put
from ganger.testing.contracts.store_reads import act


class DurableContract(StoreContract):
    def test_everything_is_there_after_the_store_was_opened_again(self) -> None:
        asyncio.run(self._reopen())

    async def _reopen(self) -> None:
        clock = FakeClock()
        async with self.open_store(clock, SeededEntropy(1)) as store:
            if not store.capabilities.durable:
                pytest.skip("the store is not durable, and says so")
            scene = Scene(store, clock)
            held, child = await self._write(scene)
            before = await self._picture(scene, held.id, child)
        async with self.open_store(clock, SeededEntropy(2)) as store:
            scene = Scene(store, clock)
            assert await self._picture(scene, held.id, child) == before
            await self._go_on(scene, held, child)

    async def _write(self, scene: Scene) -> tuple[Claimed, TaskId]:
        queue, node = await scene.queue(batch_size=2, max_per_key=1), await scene.node()
        submitted = await scene.store.submit(Submission((plain(queue, key="k", limit_key="l"),), act=act("submit")))
        held = await scene.take(node, submitted.ids[0])
        child = await scene.add(queue, parents=(Edge(held.id),), limit_key="l")
        await scene.write(put(held.id, held.fence, "d", b"v" * 2_000), append(held.id, held.fence, 0, b"out"))
        return held, child

    async def _picture(self, scene: Scene, task: TaskId, child: TaskId) -> list[object]:
        directory = await scene.store.directory()
        return [
            await scene.store.look(task),
            await scene.store.look(child),
            await scene.data(task, "d"),
            await scene.events(),
            await scene.store.counts(),
            directory,
            verify(await scene.store.audit(Position(0))),
        ]

    async def _go_on(self, scene: Scene, held: Claimed, child: TaskId) -> None:
        """The lease still counts, positions and ids go on, and the key is still taken."""
        last = (await scene.events())[-1].position
        await scene.settle("succeed", held)
        assert (await scene.events())[-1].position > last
        (claimed,) = await scene.claim(held.holder, held.queue)
        assert claimed.id == child
        batch = (await scene.task(child)).batch
        new = await scene.add(held.queue)
        assert (new > child, (await scene.task(new)).batch != batch) == (True, True)

    def test_leases_of_another_boot_are_void(self) -> None:
        asyncio.run(self._reboot())

    async def _reboot(self) -> None:
        clock = FakeClock()
        async with self.open_store(clock, SeededEntropy(1)) as store:
            if not store.capabilities.durable:
                pytest.skip("the store is not durable, and says so")
            scene = Scene(store, clock)
            queue, node = await scene.queue(), await scene.node()
            held = await scene.take(node, await scene.add(queue))
        clock.reboot(down=5)
        async with self.open_store(clock, SeededEntropy(2)) as store:
            scene = Scene(store, clock)
            assert await scene.apply(move(held.id, "succeed", held.fence)) == [(0, Verdict.STALE)]
            with pytest.raises(NodeGone):
                await scene.beat(node)
            assert [lapsed.task for lapsed in await scene.lapse()] == [held.id]
            assert await scene.node_state(node) == NodeState.LOST
            await scene.make("lose", held.id)
            assert await scene.statuses(held.id) == [Status.QUEUED]
