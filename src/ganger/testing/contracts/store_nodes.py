"""Nodes: how they register, stay, drain, leave and are lost."""

import pytest

from ganger.core.audit import Act
from ganger.core.errors import NodeGone, NodeNotFound, NodeTaken
from ganger.core.event import Fact
from ganger.core.ids import NodeId
from ganger.core.node import Node, NodeState, Registration, Vitals
from ganger.core.state import Status
from ganger.engine.store import AS_IT_SAYS, Configure, NodeChange
from ganger.engine.unheld import PATIENCE, find_unheld
from ganger.testing.contracts.scene import MINUTE, TOKEN, Scene, StoreContract, plain, story


async def limit(scene: Scene, node: NodeId, slots: int) -> Node:
    """Limit a node as an operator does."""
    said = Configure(node=NodeChange(node, limit=slots), act=Act("ada", "node.limit"))
    limited = (await scene.store.configure(said)).node
    assert limited is not None
    return limited


class NodesContract(StoreContract):
    @story
    async def test_a_node_is_kept_as_it_registered(self, scene: Scene) -> None:
        said = Registration("n", "t", 4, 5_000, ("q",), ("shell",), ("gpu",))
        node = (await scene.store.configure(Configure(node=NodeChange(register=said)))).node
        assert node is not None
        assert (node.name, node.slots, node.lease, node.queues, node.kinds, node.labels) == (
            "n", 4, 5_000, ("q",), ("shell",), ("gpu",),
        )  # fmt: skip
        assert (node.state, node.until) == (NodeState.ACTIVE, scene.clock.now() + 5_000)
        assert (node.since, node.seen) == (scene.clock.wall(), scene.clock.wall())
        assert (await scene.store.directory()).nodes == [node]

    @story
    async def test_a_second_live_node_of_one_name_is_refused(self, scene: Scene) -> None:
        first = await scene.node("n", lease=1_000)
        other = Registration("n", "another secret", lease=1_000)
        with pytest.raises(NodeTaken):
            await scene.store.configure(Configure(node=NodeChange(register=other)))
        scene.clock.advance(1_000)
        joined = (await scene.store.configure(Configure(node=NodeChange(register=other)))).node
        assert joined is not None
        assert joined.id != first
        with pytest.raises(NodeGone):
            await scene.beat(first)

    @story
    async def test_the_same_node_asking_again_is_renewed(self, scene: Scene) -> None:
        first = await scene.node("n", lease=1_000)
        scene.clock.advance(900)
        assert await scene.node("n", lease=1_000) == first
        scene.clock.advance(900)
        assert await scene.beat(first) == ()

    @story
    async def test_a_name_keeps_its_identity_over_registrations(self, scene: Scene) -> None:
        first, other = await scene.node("n"), await scene.node("other")
        await scene.leave(first)
        second = await scene.node("n")
        one, two, three = [await scene.find_node(node) for node in (first, second, other)]
        assert one is not None and two is not None and three is not None  # noqa: PT018 - only for the type
        assert (first != second, one.identity == two.identity, one.identity != three.identity) == (True, True, True)

    @story
    async def test_a_limited_node_holds_no_more_than_that(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(slots=3)
        await scene.submit(*(plain(queue) for _ in range(5)))
        assert (await limit(scene, node, 1)).slots == 1
        assert [len(await scene.claim(node, queue, most=5)) for _ in range(2)] == [1, 0]
        assert (await limit(scene, node, 0)).slots == 0
        assert (await limit(scene, node, 2)).slots == 2
        assert len(await scene.claim(node, queue, most=5)) == 1
        assert (await limit(scene, node, AS_IT_SAYS)).slots == 3
        assert len(await scene.claim(node, queue, most=5)) == 1

    @story
    async def test_a_limit_holds_over_beats_and_registrations_of_its_name(self, scene: Scene) -> None:
        first, other = await scene.node("n", slots=3), await scene.node("other")
        await limit(scene, first, 2)
        await scene.beat(first)
        assert await scene.node("n", slots=4) == first
        seen = [await scene.find_node(first), await scene.find_node(other)]
        assert [node.slots for node in seen if node is not None] == [2, None]
        await scene.leave(first)
        second = await scene.node("n", slots=5)
        assert [node.slots for node in [await scene.find_node(second)] if node is not None] == [2]
        assert (await limit(scene, second, AS_IT_SAYS)).slots == 5

    @story
    async def test_one_beat_renews_every_lease_by_liveness(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        await scene.submit(*(plain(queue) for _ in range(3)))
        held = await scene.claim(node, queue, most=3)
        for _ in range(3):
            scene.clock.advance(900)
            await scene.beat(node)
            assert await scene.lapse() == []
        await scene.settle("succeed", *held)

    @story
    async def test_a_beat_may_ask_for_more_time(self, scene: Scene) -> None:
        node = await scene.node(lease=1_000)
        await scene.beat(node, lease=MINUTE)
        scene.clock.advance(MINUTE - 1)
        assert await scene.beat(node) == ()

    @story
    async def test_a_beat_that_comes_too_late_revives_nothing(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        held = await scene.take(node, await scene.add(queue))
        scene.clock.advance(1_000)
        with pytest.raises(NodeGone):
            await scene.beat(node)
        assert [lapsed.task for lapsed in await scene.lapse()] == [held.id]
        with pytest.raises(NodeGone):
            await scene.beat(node)

    @story
    async def test_no_jump_of_the_wall_clock_ends_or_extends_a_lease(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        held = await scene.take(node, await scene.add(queue))
        scene.clock.jump_wall(60 * MINUTE)
        assert await scene.lapse() == []
        scene.clock.jump_wall(-120 * MINUTE)
        scene.clock.advance(999)
        assert await scene.lapse() == []
        scene.clock.advance(1)
        assert [lapsed.task for lapsed in await scene.lapse()] == [held.id]

    @story
    async def test_only_the_node_itself_speaks_for_it(self, scene: Scene) -> None:
        node = await scene.node()
        for change in (
            NodeChange(node, "guess", beat=True),
            NodeChange(node, "", leave=True),
            NodeChange(node, drain=True),
            NodeChange(node, resume=True),
        ):
            with pytest.raises((NodeNotFound, NodeGone)):
                await scene.store.configure(Configure(node=change))
        with pytest.raises(NodeGone):
            await scene.store.configure(Configure(node=NodeChange(NodeId(99), TOKEN, beat=True)))
        assert await scene.node_state(node) == NodeState.ACTIVE

    @story
    async def test_a_draining_node_renews_and_settles_what_it_has(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        held = await scene.take(node, await scene.add(queue))
        await scene.drain(node)
        assert await scene.node_state(node) == NodeState.DRAINING
        scene.clock.advance(900)
        await scene.beat(node)
        scene.clock.advance(900)
        await scene.settle("start", held)
        await scene.settle("succeed", held)

    @story
    async def test_a_node_that_drains_can_be_resumed(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        await scene.drain(node)
        with pytest.raises(NodeGone):
            await scene.claim(node, queue)
        said = Configure(node=NodeChange(node, resume=True), act=Act("ada", "node.resume"))
        resumed = (await scene.store.configure(said)).node
        assert resumed is not None
        assert (resumed.state, await scene.node_state(node)) == (NodeState.ACTIVE, NodeState.ACTIVE)
        assert [held.id for held in await scene.claim(node, queue)] == [task]

    @story
    async def test_a_node_that_left_cannot_be_resumed(self, scene: Scene) -> None:
        node = await scene.node()
        await scene.leave(node)
        with pytest.raises(NodeGone):
            await scene.store.configure(Configure(node=NodeChange(node, TOKEN, resume=True)))
        assert await scene.node_state(node) == NodeState.LEFT

    @story
    async def test_a_beat_tells_how_the_node_is_until_the_next_that_does(self, scene: Scene) -> None:
        node, vitals = await scene.node(), Vitals(4, 2, 7, 1.25, 1 << 30, 1 << 34, "why \u2014 \n", (3, 1 << 62))
        for told, known in ((None, None), (vitals, vitals), (None, vitals), (Vitals(1), Vitals(1))):
            change = NodeChange(node, TOKEN, beat=True, vitals=told)
            beaten = (await scene.store.configure(Configure(node=change))).node
            assert beaten is not None
            assert beaten.vitals == known
            assert (await scene.store.directory()).nodes == [beaten]
        assert await scene.node() == node
        assert [each.vitals for each in (await scene.store.directory()).nodes] == [None], "it is another process now"

    @story
    async def test_what_a_node_leases_and_its_beat_does_not_name_is_found(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node("ada")
        first, second = [await scene.take(node, await scene.add(queue)) for _ in range(2)]

        async def beat(*hands: int) -> list[tuple[int, str]]:
            change = NodeChange(node, TOKEN, beat=True, vitals=Vitals(hands=hands))
            await scene.store.configure(Configure(node=change))
            return [(one.task.id, one.node.name) for one in await find_unheld(scene.store)]

        assert await beat(first.id) == [], "the answer to its claim may be on its way"
        scene.clock.advance(PATIENCE + 1)
        assert await beat(first.id) == [(second.id, "ada")]
        assert await beat(first.id, second.id) == []

    @story
    async def test_a_node_that_leaves_ends_its_leases_in_order(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node("leaver")
        held = await scene.take(node, await scene.add(queue))
        await scene.settle("start", held)
        await scene.leave(node)
        assert await scene.node_state(node) == NodeState.LEFT
        (lapsed,) = await scene.lapse()
        assert (lapsed.task, lapsed.left, lapsed.holder, lapsed.status) == (held.id, True, "leaver", Status.RUNNING)
        assert lapsed.started
        with pytest.raises(NodeGone):
            await scene.beat(node)

    @story
    async def test_a_node_that_left_frees_its_name_at_once(self, scene: Scene) -> None:
        node = await scene.node("n")
        await scene.leave(node)
        other = NodeChange(register=Registration("n", "another secret"))
        joined = (await scene.store.configure(Configure(node=other))).node
        assert joined is not None
        assert joined.id != node

    @story
    async def test_coming_and_going_is_told(self, scene: Scene) -> None:
        one, _ = await scene.node("a"), await scene.node("b", lease=1_000)
        await scene.leave(one)
        scene.clock.advance(1_000)
        await scene.lapse()
        await scene.lapse()
        assert [(event.fact, event.subject) for event in await scene.events()] == [
            (Fact.NODE_JOINED, "a"), (Fact.NODE_JOINED, "b"), (Fact.NODE_LEFT, "a"), (Fact.NODE_LOST, "b"),
        ]  # fmt: skip
