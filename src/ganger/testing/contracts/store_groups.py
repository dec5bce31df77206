"""What a store does with groups: they end when their members have ended."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import CycleFound
from ganger.core.event import Fact
from ganger.core.graph import Edge, On
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.store import Query
from ganger.testing.contracts.scene import Scene, StoreContract, plain, story

B, C, F, Q, S = Status.BLOCKED, Status.CANCELLED, Status.FAILED, Status.QUEUED, Status.SUCCEEDED


class GroupsContract(StoreContract):
    @story
    async def test_an_empty_closed_group_ends_at_once(self, scene: Scene) -> None:
        queue = await scene.queue()
        group, after = await scene.submit(plain(queue, Kind.GROUP), plain(queue, parents=(Edge(-1),)))
        assert await scene.statuses(group, after) == [S, Q]
        assert await scene.facts(group) == [Fact.SUBMITTED, Fact.SETTLED]

    @story
    async def test_a_group_ends_with_its_last_member(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group, one, two, after = await scene.submit(
            plain(queue, Kind.GROUP), plain(queue, group=-1), plain(queue, group=-1), plain(queue, parents=(Edge(-1),))
        )
        assert ((await scene.task(group)).waits, (await scene.task(one)).group) == (2, group)
        await scene.finish(node, "succeed", one)
        assert await scene.statuses(group, after) == [B, B]
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(group, after) == [S, Q]
        assert (await scene.task(group)).ended == scene.clock.wall()

    @story
    async def test_a_member_may_come_before_its_group_in_a_submission(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        member, group = await scene.submit(plain(queue, group=-2), plain(queue, Kind.GROUP))
        assert await scene.statuses(group) == [B]
        await scene.finish(node, "succeed", member)
        assert await scene.statuses(group) == [S]

    @story
    async def test_a_group_is_never_given_to_a_holder(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group = await scene.add(queue, kind=Kind.GROUP, open_group=True)
        assert await scene.claim(node, queue) == []
        assert await scene.claim(node, ids=(group,)) == []
        await scene.make("hold", group)
        await scene.make("kick", group)
        assert await scene.statuses(group) == [B]

    @story
    async def test_a_group_fails_if_a_member_did_not_succeed_and_says_how_many(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for rule in ("fail", "terminate", "lose_to_orphan"):
            group, good, *bad = await scene.submit(
                plain(queue, Kind.GROUP), plain(queue, group=-1), plain(queue, group=-1), plain(queue, group=-1)
            )
            await scene.finish(node, rule, *bad)
            await scene.finish(node, "succeed", good)
            assert await scene.statuses(group) == [F]
            assert "2" in str((await scene.task(group)).reason)

    @story
    async def test_a_cancelled_member_fails_its_group_and_a_skipped_one_does_not(self, scene: Scene) -> None:
        queue = await scene.queue()
        group, member = await scene.submit(plain(queue, Kind.GROUP), plain(queue, group=-1))
        await scene.make("cancel", member)
        assert await scene.statuses(group) == [F]

        group, choice, member = await scene.submit(
            plain(queue, Kind.GROUP), plain(queue, Kind.CONDITION), plain(queue, group=-1, parents=(Edge(-2, On.THEN),))
        )
        await scene.make("conclude", choice, branch=False)
        assert await scene.statuses(member, group) == [C, S]

    @story
    async def test_members_that_end_in_one_step_end_the_group_once(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group, *_ = await scene.submit(plain(queue, Kind.GROUP), *(plain(queue, group=-1) for _ in range(5)))
        await scene.settle("succeed", *await scene.claim(node, queue, most=5))
        assert await scene.statuses(group) == [S]
        assert await scene.facts(group) == [Fact.SUBMITTED, Fact.SETTLED]

    @story
    async def test_an_open_group_waits_for_more_until_it_is_closed(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group = await scene.add(queue, kind=Kind.GROUP, open_group=True)
        member = await scene.add(queue, group=group)
        assert (await scene.task(group)).waits == 2
        await scene.finish(node, "succeed", member)
        assert await scene.statuses(group) == [B]
        late = await scene.add(queue, group=group)
        await scene.edit(group, close_group=True)
        await scene.edit(group, close_group=True)
        assert ((await scene.task(group)).waits, await scene.statuses(group)) == (1, [B])
        await scene.finish(node, "succeed", late)
        assert await scene.statuses(group) == [S]

    @story
    async def test_a_held_group_takes_members_and_counts_them(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group = await scene.add(queue, kind=Kind.GROUP, open_group=True)
        await scene.make("hold", group)
        member = await scene.add(queue, group=group)
        await scene.edit(group, close_group=True)
        await scene.finish(node, "succeed", member)
        assert await scene.statuses(group) == [Status.HELD]
        await scene.make("kick", group)
        assert await scene.statuses(group) == [S]

    @story
    async def test_closing_an_open_group_whose_members_have_ended_ends_it(self, scene: Scene) -> None:
        queue = await scene.queue()
        group, after = await scene.submit(plain(queue, Kind.GROUP, open_group=True), plain(queue, parents=(Edge(-1),)))
        await scene.edit(group, close_group=True)
        assert await scene.statuses(group, after) == [S, Q]

    @story
    async def test_a_group_in_a_group_is_a_member_like_others(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        outer, inner, member = await scene.submit(
            plain(queue, Kind.GROUP), plain(queue, Kind.GROUP, group=-1), plain(queue, group=-2)
        )
        assert await scene.statuses(outer, inner) == [B, B]
        await scene.finish(node, "fail", member)
        assert await scene.statuses(outer, inner) == [F, F]

    @story
    async def test_a_group_waits_for_its_parents_too(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, group, member = await scene.submit(
            plain(queue), plain(queue, Kind.GROUP, parents=(Edge(-1),)), plain(queue, group=-2)
        )
        assert (await scene.task(group)).waits == 2
        await scene.finish(node, "succeed", member)
        assert await scene.statuses(group) == [B]
        await scene.finish(node, "succeed", parent)
        assert await scene.statuses(group) == [S]

    @story
    async def test_a_lost_member_leaves_the_count_right(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, group, lost, other = await scene.submit(
            plain(queue), plain(queue, Kind.GROUP), plain(queue, group=-2, parents=(Edge(-1),)), plain(queue, group=-2)
        )
        await scene.finish(node, "fail", parent)
        assert (await scene.statuses(lost, group), (await scene.task(group)).waits) == ([C, B], 1)
        await scene.finish(node, "succeed", other)
        assert await scene.statuses(group) == [F]

    @story
    async def test_a_member_born_lost_does_not_hold_its_group(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent = await scene.add(queue)
        await scene.finish(node, "fail", parent)
        group, _ = await scene.submit(plain(queue, Kind.GROUP), plain(queue, group=-1, parents=(Edge(parent),)))
        assert await scene.statuses(group) == [F]

    @story
    async def test_a_removed_member_is_not_waited_for(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group, one, two = await scene.submit(plain(queue, Kind.GROUP), plain(queue, group=-1), plain(queue, group=-1))
        await scene.finish(node, "succeed", one)
        await scene.edit(two, remove=True)
        assert await scene.statuses(group) == [S]

    @story
    async def test_a_member_that_waits_for_its_own_group_is_refused(self, scene: Scene) -> None:
        queue = await scene.queue()
        group = await scene.add(queue, kind=Kind.GROUP, open_group=True)
        after = await scene.add(queue, parents=(Edge(group),))
        with pytest.raises(CycleFound):
            await scene.add(queue, group=group, parents=(Edge(after),))
        with pytest.raises(CycleFound):
            await scene.submit(plain(queue, parents=(Edge(group),)), plain(queue, group=group, parents=(Edge(-1),)))
        member = await scene.add(queue, group=group)
        with pytest.raises(CycleFound):
            await scene.edit(member, link=(after, On.SUCCESS))
        assert len((await scene.store.find(Query())).tasks) == 3

    @story
    async def test_members_are_kept_until_their_group_has_ended(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        group, one, two = await scene.submit(plain(queue, Kind.GROUP), plain(queue, group=-1), plain(queue, group=-1))
        await scene.finish(node, "fail", one)
        scene.clock.advance(1_000)
        await scene.prune(scene.clock.wall())
        assert await scene.statuses(one) == [F]
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(group) == [F]
        scene.clock.advance(1)
        await scene.prune(Wall(scene.clock.wall()))
        assert [await scene.gone(task) for task in (group, one, two)] == [True, True, True]

    @story
    async def test_members_are_found_by_their_group(self, scene: Scene) -> None:
        queue = await scene.queue()
        group, one, _, two = await scene.submit(
            plain(queue, Kind.GROUP), plain(queue, group=-1), plain(queue), plain(queue, group=-1)
        )
        assert [task.id for task in (await scene.store.find(Query(group=group))).tasks] == [one, two]
