"""Upkeep: promotion, lapsed leases, retention. Every step may be done by anybody, any number of times."""

from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import Position
from ganger.core.lease import Renewal
from ganger.core.node import NodeState
from ganger.core.state import Status, Verdict, move
from ganger.engine.store import Chunk, Datum, Note, Tend
from ganger.testing.contracts.scene import Scene, StoreContract, append, plain, put, story


class UpkeepContract(StoreContract):
    @story
    async def test_due_tasks_are_promoted_the_earliest_first(self, scene: Scene) -> None:
        queue, wall = await scene.queue(), scene.clock.wall()
        third, first, second, late = await scene.submit(*(plain(queue, delay=delay) for delay in (30, 10, 20, 99)))
        before = await scene.store.tend(Tend(promote=True))
        assert (before.done, before.more, before.next_at) == (0, False, wall + 10)
        scene.clock.advance(30)
        assert (await scene.store.tend(Tend(promote=True, most=2))).done == 2
        assert await scene.statuses(first, second, third) == [Status.QUEUED, Status.QUEUED, Status.DELAYED]
        assert (await scene.store.tend(Tend(promote=True))).done == 1
        last = await scene.store.tend(Tend(promote=True))
        assert (last.done, last.more, last.next_at) == (0, False, wall + 99)
        assert await scene.statuses(third, late) == [Status.QUEUED, Status.DELAYED]
        assert await scene.facts(first) == [Fact.SUBMITTED, Fact.READIED]

    @story
    async def test_a_silent_node_is_lost_and_its_tasks_lapse(self, scene: Scene) -> None:
        queue, node = await scene.queue(retry="[7]", on_lost="orphan"), await scene.node("silent", lease=1_000)
        one, two = await scene.submit(plain(queue), plain(queue, retry="[8]"))
        await scene.take(node, one)
        await scene.settle("start", await scene.take(node, two))
        await scene.edit(two, kill=True)
        early = await scene.store.tend(Tend(lapse=True))
        assert (early.lapsed, early.more, early.next_at) == ([], False, scene.clock.now() + 1_000)
        scene.clock.advance(1_000)
        first, second = sorted(await scene.lapse(), key=lambda lapsed: lapsed.task)
        assert (first.task, first.fence, first.status, first.started) == (one, 1, Status.CLAIMED, False)
        assert (first.left, first.retry, first.on_lost, first.kill) == (False, "[7]", "orphan", False)
        assert (second.task, second.started, second.retry, second.kill) == (two, True, "[8]", True)
        assert (second.holder, second.crashes) == ("silent", 0)
        assert await scene.node_state(node) == NodeState.LOST

    @story
    async def test_a_lapse_changes_no_task_and_comes_again_until_it_is_moved(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        held = await scene.take(node, await scene.add(queue))
        scene.clock.advance(1_000)
        before = await scene.task(held.id)
        assert await scene.lapse() == await scene.lapse()
        assert await scene.task(held.id) == before
        assert await scene.apply(move(held.id, "lose", held.fence)) == []
        assert await scene.apply(move(held.id, "lose", held.fence)) == [(0, Verdict.STALE)]
        assert await scene.lapse() == []

    @story
    async def test_a_touched_lease_lapses_by_itself(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        short, long = await scene.submit(*(plain(queue, renewal=Renewal.TOUCH, ttr=ttr) for ttr in (1_000, 2_000)))
        await scene.claim(node, queue, most=2)
        assert (await scene.store.tend(Tend(lapse=True))).next_at == scene.clock.now() + 1_000
        scene.clock.advance(1_000)
        (lapsed,) = await scene.lapse()
        assert (lapsed.task, lapsed.left, await scene.node_state(node)) == (short, False, NodeState.ACTIVE)
        assert long

    @story
    async def test_a_task_that_was_settled_in_time_does_not_lapse(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        held = await scene.take(node, await scene.add(queue, renewal=Renewal.TOUCH, ttr=500))
        await scene.settle("release", held)
        scene.clock.advance(5_000)
        assert await scene.lapse() == []

    @story
    async def test_a_lapse_gives_at_most_as_many_as_asked(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        await scene.submit(*(plain(queue) for _ in range(5)))
        await scene.claim(node, queue, most=5)
        scene.clock.advance(1_000)
        tended = await scene.store.tend(Tend(lapse=True, most=2))
        assert (len(tended.lapsed), tended.more) == (2, True)
        assert len(await scene.lapse()) == 5

    @story
    async def test_there_is_nothing_to_release_when_nothing_is_left_over(self, scene: Scene) -> None:
        queue = await scene.queue()
        _, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)))
        await scene.follow()
        assert await scene.statuses(child) == [Status.BLOCKED]

    @story
    async def test_old_final_tasks_are_pruned_with_all_that_is_theirs(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000_000)
        held = await scene.take(node, await scene.add(queue, key="k"))
        await scene.write(put(held.id, held.fence, "d", b"v"), append(held.id, held.fence, 0, b"out"))
        await scene.settle("succeed", held)
        waiting, delayed = await scene.submit(plain(queue), plain(queue, delay=5))
        running = await scene.take(node, await scene.add(queue))
        scene.clock.advance(1_000)
        young = await scene.add(queue)
        await scene.finish(node, "fail", young)

        await scene.prune(scene.clock.wall())
        assert await scene.gone(held.id)
        assert [await scene.gone(task) for task in (waiting, delayed, running.id, young)] == [False] * 4
        assert await scene.add(queue, key="k")
        ((counts,), _) = await scene.store.counts()
        assert counts.total == 5

    @story
    async def test_a_child_does_not_miss_a_parent_that_was_pruned(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000_000)
        one, two, child = await scene.submit(plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))))
        await scene.finish(node, "succeed", one)
        scene.clock.advance(1_000)
        await scene.prune(scene.clock.wall())
        assert await scene.gone(one)
        assert ((await scene.task(child)).waits, await scene.statuses(child)) == (1, [Status.BLOCKED])
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(child) == [Status.QUEUED]

    @story
    async def test_old_events_are_pruned_and_positions_go_on(self, scene: Scene) -> None:
        queue = await scene.queue()
        await scene.add(queue)
        last = (await scene.events())[-1].position
        scene.clock.advance(1_000)
        await scene.prune(scene.clock.wall())
        assert await scene.events() == []
        task = await scene.add(queue)
        (event,) = await scene.store.events(Position(0))
        assert (event.entries[0].task, event.position > last) == (task, True)
        assert await scene.store.events(last) == [event]

    @story
    async def test_nodes_that_went_long_ago_are_forgotten_and_others_not(self, scene: Scene) -> None:
        queue = await scene.queue()
        gone, holds, here = await scene.node("a"), await scene.node("b"), await scene.node("c", lease=1_000_000)
        held = await scene.take(holds, await scene.add(queue))
        await scene.leave(gone)
        await scene.leave(holds)
        assert [lapsed.task for lapsed in await scene.lapse()] == [held.id]
        scene.clock.advance(1_000)
        await scene.prune(scene.clock.wall())
        assert [(await scene.find_node(node)) is None for node in (gone, holds, here)] == [True, False, False]
        assert [lapsed.holder for lapsed in await scene.lapse()] == ["b"]

    @story
    async def test_the_oldest_output_of_final_tasks_is_trimmed(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = []
        for _ in range(4):
            held.append(await scene.take(node, await scene.add(queue)))
            await scene.write(append(held[-1].id, held[-1].fence, 0, b"x" * 100))
        old, middle, young, running = held
        await scene.settle("succeed", old)
        scene.clock.advance(1)
        await scene.settle("succeed", middle, young)
        while (await scene.store.tend(Tend(trim_output=250))).more:
            pass
        sizes = [(await scene.store.value(one.id, "out:stdout")).size for one in (old, middle, young, running)]
        assert (sizes[0], sizes[3], sum(sizes) <= 250) == (0, 100, True)
        assert await scene.statuses(old.id) == [Status.SUCCEEDED]

    @story
    async def test_blobs_that_no_row_names_are_told(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        datum, chunk = Datum("d", blob="aa" * 32, size=9), Chunk("stdout", 0, blob="bb" * 32, size=9)
        await scene.write(Note(held.id, held.fence, datum=datum), Note(held.id, held.fence, chunk=chunk))
        asked = ("aa" * 32, "bb" * 32, "cc" * 32)
        assert (await scene.store.tend(Tend(blobs=asked))).blobs == ("cc" * 32,)
        await scene.settle("succeed", held)
        await scene.edit(held.id, remove=True)
        assert (await scene.store.tend(Tend(blobs=asked))).blobs == asked
