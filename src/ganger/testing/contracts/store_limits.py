"""How many tasks may be leased at once: of a queue, on a node, of a concurrency key."""

from ganger.core.event import Fact
from ganger.core.ids import TaskId
from ganger.core.queue import Policy
from ganger.core.state import Status, move
from ganger.engine.store import Change, Claim, Exchange
from ganger.testing.contracts.scene import Scene, StoreContract, ids_of, plain, story


class LimitsContract(StoreContract):
    @story
    async def test_a_queue_gives_no_more_than_its_limit_over_all_nodes(self, scene: Scene) -> None:
        queue, one, two = await scene.queue(max_active=3), await scene.node("a"), await scene.node("b")
        await scene.submit(*(plain(queue) for _ in range(5)))
        first = await scene.claim(one, queue, most=2)
        second = await scene.ask(two, queue, most=5)
        assert (len(first), len(second.claimed), second.waiting) == (2, 1, True)

        await scene.settle("fail", first[0])
        assert len(await scene.claim(two, queue, most=5)) == 1

    @story
    async def test_a_queue_gives_each_node_no_more_than_its_limit(self, scene: Scene) -> None:
        queue, other = await scene.queue(max_per_node=1), await scene.queue("other")
        one, two = await scene.node("a"), await scene.node("b")
        await scene.submit(*(plain(queue) for _ in range(3)), plain(other, priority=2_000))
        claimed = await scene.ask(one, queue, other, most=5)
        assert [held.queue for held in claimed.claimed] == [queue, other]
        assert claimed.waiting
        assert len(await scene.claim(two, queue, most=5)) == 1

    @story
    async def test_a_node_gets_no_more_than_its_slots_over_all_queues(self, scene: Scene) -> None:
        one, two = await scene.queue("a"), await scene.queue("b")
        node = await scene.node(slots=3)
        await scene.submit(*(plain(queue) for queue in (one, two) for _ in range(3)))
        first = await scene.claim(node, one, most=2)
        asked = await scene.ask(node, two, most=5)
        assert (len(first), len(asked.claimed), asked.waiting) == (2, 1, True)
        assert await scene.claim(node, ids=(TaskId(asked.claimed[0].id + 1),)) == []

    @story
    async def test_a_limit_of_zero_gives_none(self, scene: Scene) -> None:
        node = await scene.node()
        for number, limit in enumerate(("max_active", "max_per_node")):
            queue = await scene.queue(f"q{number}", **{limit: 0})
            await scene.add(queue)
            assert await scene.claim(node, queue) == []

    @story
    async def test_a_lack_of_tasks_is_no_limit(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.add(queue)
        assert not (await scene.ask(node, queue, most=5)).waiting

    @story
    async def test_every_end_of_a_lease_frees_its_place(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_active=1, max_per_node=1), await scene.node(slots=1)
        for rule in (
            "succeed",
            "fail",
            "terminate",
            "retry",
            "release",
            "bury",
            "lose",
            "lose_to_orphan",
            "retry_later",
        ):
            await scene.add(queue)
            (held,) = await scene.claim(node, queue)
            assert await scene.claim(node, queue) == []
            await scene.settle(rule, held, due=scene.clock.wall() + 1 if rule == "retry_later" else None)

    @story
    async def test_a_place_freed_in_a_step_is_given_in_the_same_step(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_active=1), await scene.node()
        first, second = await scene.submit(plain(queue), plain(queue))
        (held,) = await scene.claim(node, queue)
        exchanged = await scene.store.exchange(Exchange((move(first, "succeed", held.fence),), Claim(node, (queue,))))
        assert ids_of(exchanged.claimed) == [second]

    @story
    async def test_named_tasks_obey_the_limits(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_active=2, max_per_key=1), await scene.node()
        keyed = await scene.submit(*(plain(queue, limit_key="k") for _ in range(2)))
        free = await scene.submit(*(plain(queue) for _ in range(2)))
        assert len(await scene.claim(node, ids=tuple(keyed))) == 1
        assert len(await scene.claim(node, ids=tuple(free))) == 1

    @story
    async def test_no_more_tasks_of_a_key_are_leased_than_its_limit(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_per_key=2), await scene.node()
        keyed = await scene.submit(*(plain(queue, limit_key="k") for _ in range(4)))
        free = await scene.submit(plain(queue), plain(queue, limit_key="other"))
        assert await parked(scene, *keyed, *free) == [False, False, True, True, False, False]
        assert ids_of(await scene.claim(node, queue, most=10)) == [keyed[0], keyed[1], free[0], free[1]]
        assert await scene.claim(node, queue, most=10) == []

    @story
    async def test_the_next_of_a_key_is_let_out_when_one_ends(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_per_key=1), await scene.node()
        first, second, third = await scene.submit(*(plain(queue, limit_key="k") for _ in range(3)))
        held = await scene.take(node, first)
        assert await parked(scene, second, third) == [True, True]
        await scene.settle("succeed", held)
        assert await parked(scene, second, third) == [False, True]
        held = await scene.take(node, second)
        assert await scene.claim(node, queue) == []
        await scene.settle("release", held, priority=2_000)
        assert await parked(scene, second, third) == [True, False]

    @story
    async def test_a_better_task_takes_the_place_of_a_worse_one(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_per_key=1), await scene.node()
        worse = await scene.add(queue, limit_key="k", priority=9)
        better = await scene.add(queue, limit_key="k", priority=3)
        assert await parked(scene, worse, better) == [True, False]
        await scene.edit(worse, change=Change(priority=1))
        assert await parked(scene, worse, better) == [False, True]
        assert ids_of(await scene.claim(node, queue, most=10)) == [worse]

    @story
    async def test_a_task_that_leaves_the_line_lets_the_next_out(self, scene: Scene) -> None:
        queue = await scene.queue(max_per_key=1)
        first, second, third, fourth = await scene.submit(*(plain(queue, limit_key="k") for _ in range(4)))
        await scene.make("cancel", first)
        assert await parked(scene, second, third) == [False, True]
        await scene.make("hold", second)
        assert await parked(scene, third, fourth) == [False, True]
        await scene.edit(third, remove=True)
        assert await parked(scene, fourth) == [False]
        await scene.make("kick", second)
        assert await parked(scene, second, fourth) == [False, True]

    @story
    async def test_a_task_that_becomes_ready_is_parked_if_its_key_is_full(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_per_key=1), await scene.node()
        await scene.add(queue, limit_key="k")
        late = await scene.add(queue, limit_key="k", delay=5)
        await scene.claim(node, queue)
        scene.clock.advance(5)
        assert await scene.claim(node, queue) == []
        assert await scene.statuses(late) == [Status.QUEUED]
        assert await parked(scene, late) == [True]

    @story
    async def test_a_change_of_the_policy_parks_and_lets_out(self, scene: Scene) -> None:
        queue = await scene.queue()
        ids = await scene.submit(*(plain(queue, limit_key="k") for _ in range(3)))
        for limit, expected in (
            (1, [False, True, True]),
            (2, [False, False, True]),
            (0, [True] * 3),
            (None, [False] * 3),
        ):
            await scene.change_queue(queue, policy=Policy(max_per_key=limit))
            assert await parked(scene, *ids) == expected

    @story
    async def test_a_key_counts_in_each_queue_by_itself(self, scene: Scene) -> None:
        one, two, node = (
            await scene.queue("a", max_per_key=1),
            await scene.queue("b", max_per_key=1),
            await scene.node(),
        )
        await scene.submit(*(plain(queue, limit_key="k") for queue in (one, two) for _ in range(2)))
        assert len(await scene.claim(node, one, two, most=10)) == 2

    @story
    async def test_a_full_key_hides_nothing_behind_it(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_per_key=1), await scene.node()
        await scene.submit(*(plain(queue, limit_key="k", priority=1) for _ in range(50)))
        behind = await scene.add(queue, priority=9)
        assert [held.id for held in await scene.claim(node, queue, most=3)][1:] == [behind]

    @story
    async def test_parking_tells_nobody(self, scene: Scene) -> None:
        queue = await scene.queue(max_per_key=0)
        task = await scene.add(queue, limit_key="k")
        assert await scene.facts(task) == [Fact.SUBMITTED]


async def parked(scene: Scene, *tasks: TaskId) -> list[bool]:
    return [(await scene.task(task)).parked for task in tasks]
