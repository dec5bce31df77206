"""What a move leaves behind: codes, results, reasons, attempts, and the task that a result becomes."""

import pytest

from ganger.core.errors import StaleLease
from ganger.core.event import Fact
from ganger.core.ids import Fence, QueueId
from ganger.core.outcome import Fail, Release, settle
from ganger.core.retry import Fixed, Retry, to_text
from ganger.core.state import RULES, Status, Verdict, move
from ganger.core.task import Kind
from ganger.engine.store import Claim, Datum, Exchange, Note, Query
from ganger.testing.contracts.scene import Scene, StoreContract, append, ids_of, plain, put, story


class SettleContract(StoreContract):
    @story
    async def test_a_failure_keeps_its_own_code(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        assert await scene.apply(move(held.id, "fail", held.fence, code=77)) == []
        assert await scene.statuses(held.id) == [77]
        assert await scene.apply(move(held.id, "cancel")) == [(0, Verdict.WRONG_STATUS)]
        ((counts,), _) = await scene.store.counts()
        assert counts.by_status == {77: 1}

    @story
    async def test_the_times_of_a_task_are_those_of_its_moves(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        created = scene.clock.wall()
        held = await scene.take(node, await scene.add(queue))
        scene.clock.advance(10)
        await scene.settle("start", held)
        scene.clock.advance(10)
        await scene.settle("succeed", held)
        task = await scene.task(held.id)
        assert (task.created, task.started, task.ended, task.modified) == (
            created, created + 10, created + 20, created + 20,
        )  # fmt: skip

    @story
    async def test_a_result_is_kept_as_data(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two = await scene.submit(plain(queue), plain(queue))
        await scene.finish(node, "succeed", one, result=b"42")
        await scene.finish(node, "fail", two, result=b"")
        assert await scene.data(one, "result") == b"42"
        assert (await scene.store.value(two, "result")).size == 0
        assert "result" in (await scene.store.look(two)).keys

    @story
    async def test_the_last_words_of_an_attempt_are_kept_with_its_end(self, scene: Scene) -> None:
        after, node = await scene.queue("after"), await scene.node()
        queue = await scene.queue("before", becomes=after)
        held = await scene.take(node, await scene.add(queue))
        notes = (
            append(held.id, held.fence, 0, b"bye"),
            Note(held.id, held.fence, datum=Datum("result", blob="ab" * 32, size=9)),
        )
        await scene.store.exchange(Exchange((move(held.id, "succeed", held.fence),), notes=notes))
        (new,) = await scene.claim(node, after)
        assert await scene.data(held.id, "out:stdout") == b"bye"
        assert (await scene.store.value(new.id, "spec")).blob == "ab" * 32

    @story
    async def test_the_last_words_of_a_stale_holder_are_not_kept(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        late = Fence(held.fence + 1)
        settle = move(held.id, "succeed", late)
        exchanged = await scene.store.exchange(Exchange((settle,), notes=(put(held.id, late, "d", b"v"),)))
        assert exchanged.refused == [(0, Verdict.STALE)]
        assert await scene.data(held.id, "d") is None

    @story
    async def test_a_step_that_fails_keeps_no_last_words(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        note = put(held.id, held.fence, "d", b"v")
        with pytest.raises(StaleLease):
            await scene.store.exchange(
                Exchange((move(held.id, "succeed", Fence(9)),), all_or_nothing=True, notes=(note,))
            )
        assert await scene.data(held.id, "d") is None

    @story
    async def test_a_refused_settle_leaves_no_result(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        await scene.apply(move(held.id, "succeed", Fence(held.fence + 1))._replace(result=b"late"))
        assert await scene.data(held.id, "result") is None

    @story
    async def test_a_move_changes_what_it_says_and_nothing_else(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue, priority=5, description="d", timeout=3)
        await scene.finish(node, "retry", task, priority=6, reason="it rained")
        after = await scene.task(task)
        assert (after.priority, after.reason, after.description, after.timeout) == (6, "it rained", "d", 3)
        await scene.finish(node, "release", task)
        again = await scene.task(task)
        assert (again.priority, again.reason) == (6, "it rained")

    @story
    async def test_a_delayed_task_waits_for_its_time(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for rule in ("retry_later", "release_later"):
            task = await scene.add(queue)
            await scene.finish(node, rule, task, due=scene.clock.wall() + 10)
            assert (await scene.task(task)).due == scene.clock.wall() + 10
            assert await scene.claim(node, queue) == []
            scene.clock.advance(10)
            assert ids_of(await scene.claim(node, queue)) == [task]

    @story
    async def test_a_failure_with_a_delay_of_its_own_counts_and_a_release_with_one_does_not(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        held = await scene.take(node, task)
        policy = to_text(Retry(2, Fixed(1)))
        for outcome in (Release(50), Fail(delay=50), Fail(delay=50)):
            decided = settle(held._replace(retry=policy), outcome, scene.clock.wall(), 0.0)
            assert await scene.apply(decided) == []
            scene.clock.advance(49)
            assert await scene.claim(node, queue) == []
            scene.clock.advance(1)
            held = (await scene.claim(node, queue) or [held])[0]
        after = await scene.task(task)
        assert (after.status, after.attempts, after.releases) == (Status.FAILED, 2, 1)

    @story
    async def test_each_end_of_a_lease_is_one_attempt(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node("worker")
        task = await scene.add(queue)
        wall = scene.clock.wall()
        held = await scene.take(node, task)
        scene.clock.advance(5)
        await scene.settle("start", held)
        scene.clock.advance(5)
        await scene.settle("retry", held, reason="boom")
        await scene.take(node, task)
        await scene.make("lose", task)
        await scene.finish(node, "fail", task)

        first, second, third = (await scene.store.look(task)).attempts
        assert (first.task, first.fence, first.holder, first.reason) == (task, 1, "worker", "boom")
        assert (first.claimed, first.started, first.ended, first.code) == (wall, wall + 5, wall + 10, Status.QUEUED)
        assert (second.fence, second.started, third.fence, third.code) == (2, None, 4, Status.FAILED)
        assert [each.outcome for each in (first, second, third)] == ["retry", "lose", "fail"]

    @story
    async def test_what_is_given_back_before_it_began_was_no_attempt(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        fetched, begun = await scene.submit(plain(queue), plain(queue))
        for rule in ("release", "release_later"):
            held = [await scene.take(node, task) for task in (fetched, begun)]
            await scene.settle("start", held[1])
            await scene.settle(rule, *held)

        assert (await scene.store.look(fetched)).attempts == []
        assert (await scene.task(fetched)).releases == 2
        assert [each.outcome for each in (await scene.store.look(begun)).attempts] == ["release", "release_later"]

    @story
    async def test_what_was_never_leased_has_no_attempts(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue)
        await scene.make("hold", task)
        await scene.make("kick", task)
        await scene.make("cancel", task)
        assert (await scene.store.look(task)).attempts == []

    @story
    async def test_a_result_becomes_a_task_of_the_other_queue_in_the_same_step(self, scene: Scene) -> None:
        after, node = await scene.queue("after"), await scene.node()
        before = await scene.queue("before", becomes=after)
        task = await scene.add(before, kind="payload", key="k", priority=7, description="d")
        held = await scene.take(node, task)
        settle = move(task, "succeed", held.fence)._replace(result=b"out")
        (new,) = (await scene.store.exchange(Exchange((settle,), Claim(node, (after,))))).claimed

        kept = await scene.task(new.id)
        assert (new.spec, new.kind, new.priority, new.queue) == (b"out", "payload", 7, after)
        assert (kept.description, kept.key, kept.parked) == ("d", None, False)
        assert await scene.facts(new.id) == [Fact.SUBMITTED, Fact.CLAIMED]
        ((_, one), _) = await scene.store.counts()
        assert one.by_status == {Status.SUCCEEDED: 1}

    @story
    async def test_only_success_becomes_a_task(self, scene: Scene) -> None:
        after, node = await scene.queue("after"), await scene.node()
        before = await scene.queue("before", becomes=after)
        for rule in ("fail", "release", "terminate", "bury"):
            await scene.finish(node, rule, await scene.add(before))
        choice = await scene.add(before, kind=Kind.CONDITION)
        await scene.make("conclude", choice)
        held = await scene.take(node, await scene.add(before))
        await scene.apply(move(held.id, "succeed", Fence(held.fence + 1)))
        assert await count_of(scene, after) == 0

        await scene.settle("succeed", held)
        assert await count_of(scene, after) == 1

    @story
    async def test_no_result_becomes_an_empty_spec(self, scene: Scene) -> None:
        after, node = await scene.queue("after"), await scene.node()
        before = await scene.queue("before", becomes=after)
        await scene.finish(node, "succeed", await scene.add(before))
        (held,) = await scene.claim(node, after)
        assert held.spec == b""

    @story
    async def test_a_result_in_a_blob_becomes_a_spec_in_the_same_blob(self, scene: Scene) -> None:
        after, node = await scene.queue("after"), await scene.node()
        before = await scene.queue("before", becomes=after)
        held = await scene.take(node, await scene.add(before))
        blob = Datum("result", blob="ab" * 32, size=1_000_000)
        assert await scene.write(Note(held.id, held.fence, datum=blob)) == []
        await scene.settle("succeed", held)

        (new,) = await scene.claim(node, after)
        value = await scene.store.value(new.id, "spec")
        assert (value.blob, value.size, value.body, new.spec) == ("ab" * 32, 1_000_000, None, None)

    @story
    async def test_a_thousand_settles_are_one_event(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        ids = await scene.submit(*(plain(queue) for _ in range(1_000)))
        held = await scene.claim(node, queue, most=1_000)
        await scene.settle("succeed", *held)
        (settled,) = [event for event in await scene.events() if event.fact == Fact.SETTLED]
        assert [entry.task for entry in settled.entries] == ids
        assert {(entry.status, entry.fence) for entry in settled.entries} == {(Status.SUCCEEDED, 1)}
        assert (settled.holder, settled.queue) == (node, queue)

    @story
    async def test_counts_follow_every_move(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for rule in RULES.values():
            if rule.ends_lease:
                due = scene.clock.wall() + 99 if rule.target == Status.DELAYED else None
                await scene.finish(node, rule.name, await scene.add(queue), due=due)
        tasks = (await scene.store.find(Query())).tasks
        ((counts,), _) = await scene.store.counts()
        assert counts.by_status == {each: sum(task.status == each for task in tasks) for each in counts.by_status}
        assert counts.total == len(tasks) == sum(counts.by_status.values())


async def count_of(scene: Scene, queue: QueueId) -> int:
    return len((await scene.store.find(Query(queue=queue))).tasks)
