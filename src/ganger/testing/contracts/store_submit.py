"""What a store keeps of a submission: ids, births, keys, parents, batches."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import DuplicateKey, QueueNotFound, StaleLease, UnknownGroup, UnknownParent
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import Fence, QueueId, TaskId
from ganger.core.state import Status
from ganger.core.task import Kind, NewTask, OnConflict
from ganger.engine.store import CLAIMED_SPEC, INLINE_SPEC, Datum, Query, Submission
from ganger.testing.contracts.scene import MINUTE, Scene, StoreContract, plain, story


class SubmitContract(StoreContract):
    @story
    async def test_a_task_is_born_with_its_data(self, scene: Scene) -> None:
        queue = await scene.queue()
        (old,) = await scene.submit(plain(queue, key="k"))
        again = plain(queue, key="k", on_conflict=OnConflict.RETURN)
        data = ((0, Datum("a", b"1")), (1, Datum("a", b"2")), (1, Datum("b", blob="0" * 64, size=9)))
        submitted = await scene.store.submit(Submission((again, plain(queue)), data=data))
        assert submitted.existing == [0]
        assert (await scene.data(old, "a"), await scene.data(submitted.ids[1], "a")) == (None, b"2")
        large = await scene.store.value(submitted.ids[1], "b")
        assert (large.blob, large.size) == ("0" * 64, 9)

    @story
    async def test_a_task_is_born_with_a_spec_in_a_blob(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        data = ((0, Datum("spec", blob="ab" * 32, size=1_000_000)),)
        await scene.store.submit(Submission((plain(queue, key="k"),), data=data))
        (held,) = await scene.claim(node, queue)
        value = await scene.store.value(held.id, "spec")
        assert (value.blob, value.size, value.body, held.spec) == ("ab" * 32, 1_000_000, None, None)
        assert (await scene.task(held.id)).spec_size == 1_000_000

    @story
    async def test_ids_and_positions_grow_in_the_order_of_the_tasks(self, scene: Scene) -> None:
        queue = await scene.queue()
        ids = await scene.submit(*(plain(queue) for _ in range(5)))
        ids += await scene.submit(plain(queue), plain(queue))

        positions = [(await scene.task(task)).position for task in ids]
        assert ids == sorted(set(ids))
        assert ids[0] > 0
        assert positions == sorted(set(positions))

    @story
    async def test_a_task_comes_back_as_it_was_submitted(self, scene: Scene) -> None:
        queue = await scene.queue()
        asked = NewTask(
            queue, "plugin:x", b"spec", 7, key="k", description="d", retry="[]", timeout=5, renewal="touch", ttr=9_000,
            limit_key="l", requires=("gpu", "eu"), retry_of=TaskId(3),
        )  # fmt: skip
        (task,) = await scene.submit(asked)

        kept = await scene.task(task)
        for field in ("queue", "kind", "priority", "key", "description", "retry", "timeout", "renewal", "ttr"):
            assert getattr(kept, field) == getattr(asked, field)
        assert (kept.limit_key, kept.requires, kept.retry_of, kept.spec_size) == ("l", ("gpu", "eu"), 3, 4)
        assert (kept.fence, kept.holder, kept.until, kept.reserves, kept.started, kept.ended) == (
            0,
            None,
            None,
            0,
            None,
            None,
        )
        assert kept.created == kept.modified == scene.clock.wall()
        assert await scene.data(task, "spec") == b"spec"

    @story
    async def test_an_empty_submission_is_nothing(self, scene: Scene) -> None:
        assert await scene.submit() == []

    @story
    async def test_a_task_is_queued_or_delayed_until_it_is_due(self, scene: Scene) -> None:
        queue, wall = await scene.queue(), scene.clock.wall()
        now, later, past, given = await scene.submit(
            plain(queue),
            plain(queue, delay=5),
            plain(queue, due=Wall(wall - 1), delay=MINUTE),
            plain(queue, due=Wall(wall + 7), delay=MINUTE),
        )

        assert await scene.statuses(now, later, past, given) == [
            Status.QUEUED, Status.DELAYED, Status.QUEUED, Status.DELAYED,
        ]  # fmt: skip
        assert (await scene.task(later)).due == wall + 5
        assert (await scene.task(given)).due == wall + 7

    @story
    async def test_a_submission_with_an_unknown_queue_stores_nothing(self, scene: Scene) -> None:
        queue = await scene.queue()
        with pytest.raises(QueueNotFound):
            await scene.submit(plain(queue, key="k"), plain(QueueId(queue + 1)))

        assert (await scene.store.find(Query())).tasks == []
        assert [event for event in await scene.events() if event.entries] == []
        assert await scene.add(queue, key="k")

    @story
    async def test_a_taken_key_is_refused_with_its_owner_and_nothing_is_stored(self, scene: Scene) -> None:
        queue = await scene.queue()
        owner = await scene.add(queue, key="k")
        with pytest.raises(DuplicateKey) as refused:
            await scene.submit(plain(queue), plain(queue, key="k"))

        assert refused.value.fields["task"] == owner
        assert [task.id for task in (await scene.store.find(Query())).tasks] == [owner]

    @story
    async def test_a_taken_key_is_given_back_if_asked(self, scene: Scene) -> None:
        queue = await scene.queue()
        owner = await scene.add(queue, key="k")
        again = plain(queue, key="k", on_conflict=OnConflict.RETURN)
        submitted = await scene.store.submit(Submission((plain(queue), again, plain(queue))))

        assert submitted.ids[1] == owner
        assert submitted.existing == [1]
        assert len({*submitted.ids}) == 3

    @story
    async def test_the_same_key_twice_in_a_submission_is_one_task(self, scene: Scene) -> None:
        queue = await scene.queue()
        keyed = plain(queue, key="k", on_conflict=OnConflict.RETURN)
        submitted = await scene.store.submit(Submission((keyed, keyed)))
        assert submitted.ids[0] == submitted.ids[1]
        assert submitted.existing == [1]

        with pytest.raises(DuplicateKey):
            await scene.submit(plain(queue, key="other"), plain(queue, key="other"))
        assert len((await scene.store.find(Query())).tasks) == 1

    @story
    async def test_a_submission_sent_again_is_given_back_whatever_became_of_its_parents(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent = await scene.add(queue)
        again = Submission(
            (plain(queue, key="k", parents=(Edge(parent),), group=0, on_conflict=OnConflict.RETURN), plain(queue))
        )
        (child, _) = (await scene.store.submit(again)).ids
        await scene.finish(node, "succeed", parent)
        await scene.edit(parent, remove=True)
        submitted = await scene.store.submit(again)
        assert (submitted.ids[0], submitted.existing) == (child, [0])

    @story
    async def test_a_key_stays_taken_when_its_task_is_final_and_is_free_when_it_is_gone(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue, key="k")
        await scene.make("cancel", task)
        with pytest.raises(DuplicateKey):
            await scene.add(queue, key="k")

        await scene.edit(task, remove=True)
        assert await scene.add(queue, key="k") != task

    @story
    async def test_a_reference_to_a_returned_task_means_that_task(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        owner = await scene.add(queue, key="k")
        keyed = plain(queue, key="k", on_conflict=OnConflict.RETURN)
        _, child = await scene.submit(keyed, plain(queue, parents=(Edge(-1),)))

        assert await scene.statuses(child) == [Status.BLOCKED]
        await scene.finish(node, "succeed", owner)
        assert await scene.statuses(child) == [Status.QUEUED]

    @story
    async def test_an_unknown_parent_is_refused(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue)
        with pytest.raises(UnknownParent):
            await scene.submit(plain(queue), plain(queue, parents=(Edge(task), Edge(task + 1_000))))
        assert [found.id for found in (await scene.store.find(Query())).tasks] == [task]

    @story
    async def test_an_id_that_is_only_just_being_given_is_no_parent(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue)
        for guessed in (1, 2):
            with pytest.raises(UnknownParent):
                await scene.submit(plain(queue, parents=(Edge(TaskId(task + guessed)),)), plain(queue))
        assert [found.id for found in (await scene.store.find(Query())).tasks] == [task]

    @story
    async def test_only_a_group_that_waits_takes_members(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue)
        ended = await scene.add(queue, kind=Kind.GROUP)
        for wrong in (task, ended, task + 1_000):
            with pytest.raises(UnknownGroup):
                await scene.add(queue, group=wrong)
        with pytest.raises(UnknownGroup):
            await scene.submit(plain(queue), plain(queue, group=-1))

    @story
    async def test_a_submission_under_a_lease_needs_that_lease(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.add(queue)
        (held,) = await scene.claim(node, queue)
        under = (held.id, held.fence)
        await scene.store.submit(Submission((plain(queue),), under))

        for stale in ((held.id, Fence(held.fence + 1)), (held.id, Fence(held.fence - 1)), (TaskId(999), Fence(1))):
            with pytest.raises(StaleLease):
                await scene.store.submit(Submission((plain(queue),), stale))
        scene.clock.advance(30_000)
        with pytest.raises(StaleLease):
            await scene.store.submit(Submission((plain(queue),), under))
        assert len((await scene.store.find(Query())).tasks) == 2

    @story
    async def test_a_submission_under_a_settled_lease_is_stale(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.add(queue)
        (held,) = await scene.claim(node, queue)
        await scene.settle("release", held)
        with pytest.raises(StaleLease):
            await scene.store.submit(Submission((plain(queue),), (held.id, held.fence)))

    @story
    async def test_batches_are_one_sequence_and_each_is_of_one_queue(self, scene: Scene) -> None:
        pairs, threes, none = (
            await scene.queue("a", batch_size=2),
            await scene.queue("b", batch_size=3),
            await scene.queue("c"),
        )
        first = await scene.submit(*(plain(pairs) for _ in range(3)), plain(threes), plain(none))
        second = await scene.submit(plain(pairs), plain(threes), plain(pairs))

        batches = [(await scene.task(task)).batch for task in first + second]
        one, _, two, three, unbatched, also_two, also_three, four = batches
        assert unbatched is None
        assert (batches[1], also_two, also_three) == (one, two, three)
        assert sorted(batch for batch in {one, two, three, four} if batch is not None) == [one, two, three, four]

    @story
    async def test_specs_of_every_size_are_kept(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        sizes = (0, 1, INLINE_SPEC, INLINE_SPEC + 1, CLAIMED_SPEC, CLAIMED_SPEC + 1)
        ids = await scene.submit(*(plain(queue, spec=bytes([7]) * size) for size in sizes))
        claimed = await scene.claim(node, queue, most=10)

        assert [(await scene.task(task)).spec_size for task in ids] == list(sizes)
        assert [None if one.spec is None else len(one.spec) for one in claimed] == [*sizes[:-1], None]
        whole = await scene.store.value(ids[-1], "spec", most=CLAIMED_SPEC * 2)
        assert whole.body == bytes([7]) * sizes[-1]

    @story
    async def test_ten_thousand_tasks_are_one_submission(self, scene: Scene) -> None:
        queue = await scene.queue()
        ids = await scene.submit(*(plain(queue) for _ in range(10_000)))

        ((counts,), told) = await scene.store.counts()
        assert len(set(ids)) == 10_000
        assert counts.by_status == {Status.QUEUED: 10_000}
        assert told[queue][Fact.SUBMITTED] == 10_000

    @story
    async def test_a_submission_is_one_event_for_each_queue(self, scene: Scene) -> None:
        one, two = await scene.queue("a"), await scene.queue("b")
        ids = await scene.submit(plain(one), plain(two), plain(one, delay=5))

        told = [event for event in await scene.events() if event.fact == Fact.SUBMITTED]
        assert {event.queue: [entry.task for entry in event.entries] for event in told} == {
            one: [ids[0], ids[2]],
            two: [ids[1]],
        }
        assert [entry.status for event in told for entry in event.entries if entry.task == ids[2]] == [Status.DELAYED]
