"""What a store keeps of tasks that ended elsewhere."""

from ganger.core.clock import Wall
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.store import Datum, Past, Submission
from ganger.testing.contracts.scene import Scene, StoreContract, plain, story

_WON = Past(Status.SUCCEEDED, Wall(1_000), Wall(3_000), Wall(2_000), attempts=2, crashes=1)
_LOST = Past(7, Wall(1_000), Wall(3_000), Wall(2_000), "it broke", attempts=1)
_SKIPPED = Past(Status.CANCELLED, Wall(1_000), Wall(3_000), None, "skipped")


class PastsContract(StoreContract):
    @story
    async def test_a_task_that_ended_elsewhere_is_kept_with_its_end(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        data = ((0, Datum("result", b"42", size=2)),)
        request = Submission((plain(queue, key="k"), plain(queue)), data=data, pasts=((0, _LOST),))
        ended, fresh = (await scene.store.submit(request)).ids

        kept = await scene.task(ended)
        assert (kept.status, kept.reason, kept.attempts) == (7, "it broke", 1)
        assert (kept.created, kept.started, kept.ended) == (1_000, 2_000, 3_000)
        assert await scene.data(ended, "result") == b"42"
        assert [one.id for one in await scene.claim(node, queue, most=5)] == [fresh]
        assert await scene.facts(ended) == [Fact.SUBMITTED]
        (counts,), _ = await scene.store.counts()
        assert counts.by_status == {7: 1, Status.CLAIMED: 1}

    @story
    async def test_edges_to_such_a_task_are_decided(self, scene: Scene) -> None:
        queue = await scene.queue()
        tasks = (
            plain(queue), plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2),)),
            plain(queue, parents=(Edge(-1), Edge(-3))), plain(queue, parents=(Edge(-2, "failed"),)),
            plain(queue, parents=(Edge(-6),)),
        )  # fmt: skip
        pasts = ((0, _WON), (1, _LOST), (6, _SKIPPED))
        won, lost, free, doomed, waits, asked, over = (await scene.store.submit(Submission(tasks, pasts=pasts))).ids
        assert await scene.statuses(won, lost, over) == [Status.SUCCEEDED, 7, Status.CANCELLED]
        assert await scene.statuses(free, doomed, waits, asked) == [
            Status.QUEUED, Status.CANCELLED, Status.BLOCKED, Status.QUEUED
        ]  # fmt: skip
        assert (await scene.store.look(waits)).family.parents == [(won, "success"), (free, "success")]
        node = await scene.node()
        await scene.finish(node, "succeed", free, asked)
        assert await scene.statuses(waits, over) == [Status.QUEUED, Status.CANCELLED]

    @story
    async def test_a_group_has_such_members_behind_it(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        tasks = (
            plain(queue, kind=Kind.GROUP), plain(queue, group=-1), plain(queue, group=-1), plain(queue, group=-1),
            plain(queue, kind=Kind.GROUP), plain(queue, group=-5),
            plain(queue, kind=Kind.GROUP), plain(queue, group=-7),
        )  # fmt: skip
        pasts = ((1, _WON), (2, _LOST), (4, _WON), (5, _WON), (7, _SKIPPED))
        ids = (await scene.store.submit(Submission(tasks, pasts=pasts))).ids
        assert await scene.statuses(ids[0], ids[4], ids[6]) == [Status.BLOCKED, Status.SUCCEEDED, Status.SUCCEEDED]
        await scene.finish(node, "succeed", ids[3])
        assert await scene.statuses(ids[0]) == [Status.FAILED]
        assert (await scene.task(ids[0])).reason == "1 of its members did not succeed"
