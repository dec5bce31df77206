"""What holders write without moving their tasks: touch, progress, data, output."""

from typing import Any

from ganger.core.event import Fact
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Renewal
from ganger.core.state import Status, Verdict, move
from ganger.core.task import Claimed
from ganger.engine.store import Chunk, Datum, Note, Progress, Tend
from ganger.testing.contracts.scene import MINUTE, Scene, StoreContract, append, plain, put, story, touch


class NotesContract(StoreContract):
    @story
    async def test_every_note_with_a_wrong_fence_is_stale_and_changes_nothing(self, scene: Scene) -> None:
        first = await hold(scene)
        await scene.settle("release", first)
        held = await scene.take(first.holder, first.id)
        before = await scene.task(held.id)
        told = len(await scene.events())
        for fence in (held.fence - 1, held.fence + 1):
            assert await scene.write(*every_note(held.id, fence)) == [(index, Verdict.STALE) for index in range(4)]
        await self._check_untouched(scene, held.id, told)
        assert await scene.task(held.id) == before

    @story
    async def test_every_note_after_the_lease_has_ended_is_stale(self, scene: Scene) -> None:
        for rule in ("succeed", "release", "bury", "lose", "lose_to_orphan"):
            held = await hold(scene, f"queue of {rule}")
            await scene.settle(rule, held)
            told = len(await scene.events())
            assert await scene.write(*every_note(held.id, held.fence)) == [(index, Verdict.STALE) for index in range(4)]
            await self._check_untouched(scene, held.id, told)

    @story
    async def test_every_note_of_a_silent_node_is_stale(self, scene: Scene) -> None:
        held = await hold(scene, lease=1_000)
        told = len(await scene.events())
        scene.clock.advance(1_000)
        assert await scene.write(*every_note(held.id, held.fence)) == [(index, Verdict.STALE) for index in range(4)]
        await self._check_untouched(scene, held.id, told)

    @story
    async def test_every_note_after_the_touched_lease_has_ended_is_stale(self, scene: Scene) -> None:
        held = await hold(scene, renewal=Renewal.TOUCH, ttr=1_000)
        told = len(await scene.events())
        scene.clock.advance(999)
        assert await scene.write(touch(held.id, held.fence, 500)) == []
        scene.clock.advance(500)
        assert await scene.write(*every_note(held.id, held.fence)) == [(index, Verdict.STALE) for index in range(4)]
        await self._check_untouched(scene, held.id, told)

    @story
    async def test_every_note_of_a_node_that_left_is_stale(self, scene: Scene) -> None:
        held = await hold(scene)
        await scene.leave(held.holder)
        told = len(await scene.events())
        assert await scene.write(*every_note(held.id, held.fence)) == [(index, Verdict.STALE) for index in range(4)]
        await self._check_untouched(scene, held.id, told)

    async def _check_untouched(self, scene: Scene, task: TaskId, told: int) -> None:
        look = await scene.store.look(task)
        assert (look.task.percent, look.streams, "datum" in look.keys) == (None, [], False)
        assert len(await scene.events()) == told

    @story
    async def test_a_note_of_a_task_that_is_not_there_is_gone(self, scene: Scene) -> None:
        notes = every_note(TaskId(99), 1)
        assert await scene.write(*notes) == [(index, Verdict.GONE) for index in range(4)]

    @story
    async def test_each_note_is_judged_by_itself(self, scene: Scene) -> None:
        held = await hold(scene)
        notes = (put(held.id, 9, "a", b"no"), put(held.id, held.fence, "b", b"yes"), put(TaskId(99), 1, "c", b"no"))
        assert await scene.write(*notes) == [(0, Verdict.STALE), (2, Verdict.GONE)]
        assert (await scene.data(held.id, "a"), await scene.data(held.id, "b")) == (None, b"yes")

    @story
    async def test_a_touch_gives_more_time_from_now(self, scene: Scene) -> None:
        held = await hold(scene, renewal=Renewal.TOUCH, ttr=2_000)
        scene.clock.advance(1_500)
        assert await scene.write(touch(held.id, held.fence)) == []
        assert (await scene.task(held.id)).until == scene.clock.now() + 2_000
        assert await scene.write(touch(held.id, held.fence, 9_000)) == []
        assert (await scene.task(held.id)).until == scene.clock.now() + 9_000
        scene.clock.advance(8_999)
        await scene.settle("succeed", held)

    @story
    async def test_a_touch_moves_no_jump_of_the_wall_clock(self, scene: Scene) -> None:
        held = await hold(scene, renewal=Renewal.TOUCH, ttr=2_000)
        scene.clock.jump_wall(60 * MINUTE)
        assert await scene.write(touch(held.id, held.fence)) == []
        scene.clock.jump_wall(-120 * MINUTE)
        scene.clock.advance(1_999)
        assert await scene.lapse() == []
        await scene.settle("succeed", held)

    @story
    async def test_a_touch_of_a_lease_by_liveness_gives_it_no_end(self, scene: Scene) -> None:
        held = await hold(scene)
        assert await scene.write(touch(held.id, held.fence, 5)) == []
        assert (await scene.task(held.id)).until is None

    @story
    async def test_progress_shows_and_is_told(self, scene: Scene) -> None:
        held = await hold(scene)
        scene.clock.advance(5)
        note = Note(held.id, held.fence, progress=Progress(12.5, "half of a quarter"))
        assert await scene.write(note, note) == []
        task = await scene.task(held.id)
        assert (task.percent, task.info, task.modified) == (12.5, "half of a quarter", scene.clock.wall())
        assert (await scene.facts(held.id))[-1] == Fact.PROGRESSED
        assert task.status == Status.CLAIMED

    @story
    async def test_data_is_replaced_unless_it_must_be_unset(self, scene: Scene) -> None:
        held = await hold(scene)
        assert await scene.write(put(held.id, held.fence, "k", b"one")) == []
        assert await scene.write(put(held.id, held.fence, "k", b"two")) == []
        assert await scene.write(put(held.id, held.fence, "k", b"three", only_if_unset=True)) == []
        assert await scene.write(put(held.id, held.fence, "new", b"", only_if_unset=True)) == []
        assert await scene.data(held.id, "k") == b"two"
        assert {"k", "new"} <= set((await scene.store.look(held.id)).keys)

    @story
    async def test_an_operator_writes_data_of_what_is_not_final_but_never_the_spec(self, scene: Scene) -> None:
        held = await hold(scene)
        waiting = await scene.add(held.queue, spec=b"as it was")
        assert await scene.write(put(held.id, 0, "k", b"v"), put(waiting, 0, "k", b"v")) == []
        assert await scene.write(put(waiting, 0, "spec", b"other")) == [(0, Verdict.WRONG_STATUS)]
        await scene.settle("succeed", held)
        assert await scene.write(put(held.id, 0, "k", b"w")) == [(0, Verdict.WRONG_STATUS)]
        assert (await scene.data(held.id, "k"), await scene.data(waiting, "spec")) == (b"v", b"as it was")

    @story
    async def test_an_operator_writes_nothing_but_data(self, scene: Scene) -> None:
        held = await hold(scene)
        notes = [note for note in every_note(held.id, 0) if note.datum is None]
        assert await scene.write(*notes) == [(index, Verdict.STALE) for index in range(3)]

    @story
    async def test_a_blob_is_kept_by_its_name_and_size(self, scene: Scene) -> None:
        held = await hold(scene)
        datum = Datum("big", blob="cd" * 32, size=5_000_000)
        assert await scene.write(Note(held.id, held.fence, datum=datum)) == []
        value = await scene.store.value(held.id, "big", start=7)
        assert (value.body, value.blob, value.start, value.size) == (None, "cd" * 32, 7, 5_000_000)

    @story
    async def test_output_is_one_stream_by_offset(self, scene: Scene) -> None:
        held = await hold(scene)
        chunks = (append(held.id, held.fence, 0, b"hello "), append(held.id, held.fence, 6, b"world"))
        assert await scene.write(*chunks, append(held.id, held.fence, 0, b"err", "stderr")) == []
        assert await scene.write(*chunks) == []
        assert await read(scene, held.id, "stdout") == b"hello world"
        assert await read(scene, held.id, "stderr") == b"err"
        part = await scene.store.value(held.id, "out:stdout", start=2, most=3)
        assert (part.body, part.size, part.start, part.ended) == (b"llo", 11, 2, False)
        assert (await scene.store.look(held.id)).streams == ["stderr", "stdout"]

    @story
    async def test_a_chunk_that_is_sent_twice_is_stored_once(self, scene: Scene) -> None:
        held = await hold(scene)
        chunk = append(held.id, held.fence, 0, b"x" * 100)
        assert await scene.write(chunk, chunk) == []
        assert await scene.write(chunk) == []
        await scene.settle("succeed", held)
        assert (await scene.store.tend(Tend(trim_output=100))).done == 0
        assert await read(scene, held.id, "stdout") == b"x" * 100

    @story
    async def test_output_in_blobs_is_read_by_their_names(self, scene: Scene) -> None:
        held = await hold(scene)
        blob = Chunk("stdout", 4, blob="ef" * 32, size=1_000)
        notes = (append(held.id, held.fence, 0, b"head"), Note(held.id, held.fence, chunk=blob))
        assert await scene.write(*notes) == []
        value = await scene.store.value(held.id, "out:stdout", start=104)
        assert (value.body, value.blob, value.start, value.size) == (None, "ef" * 32, 100, 1_004)

    @story
    async def test_each_attempt_has_its_own_output_and_the_newest_is_read(self, scene: Scene) -> None:
        first = await hold(scene)
        await scene.write(append(first.id, first.fence, 0, b"first"))
        await scene.settle("retry", first)
        second = await scene.take(first.holder, first.id)
        assert await read(scene, first.id, "stdout") == b"first"
        await scene.write(append(second.id, second.fence, 0, b"second"))
        assert await read(scene, first.id, "stdout") == b"second"
        old = await scene.store.value(first.id, "out:stdout", fence=first.fence)
        assert old.body == b"first"
        await scene.settle("succeed", second)
        assert (await scene.store.value(first.id, "out:stdout")).ended

    @story
    async def test_the_spec_is_frozen_for_its_holder(self, scene: Scene) -> None:
        held = await hold(scene, spec=b"as it was")
        assert len(await scene.write(put(held.id, held.fence, "spec", b"other"))) == 1
        assert await scene.data(held.id, "spec") == b"as it was"

    @story
    async def test_notes_of_one_holder_and_moves_of_another_do_not_mix(self, scene: Scene) -> None:
        old = await hold(scene, lease=1_000)
        scene.clock.advance(1_000)
        other = await scene.node("other")
        await scene.apply(move(old.id, "lose", old.fence))
        new = await scene.take(other, old.id)
        assert await scene.write(put(old.id, old.fence, "k", b"old")) == [(0, Verdict.STALE)]
        assert await scene.write(put(new.id, new.fence, "k", b"new")) == []
        assert await scene.data(old.id, "k") == b"new"


async def hold(scene: Scene, queue: str = "q", lease: int = 30_000, **fields: Any) -> Claimed:
    """A fresh task in the hands of a fresh node."""
    where = await scene.queue(queue)
    node = await scene.node(f"node of {queue}", lease=lease)
    (task,) = await scene.submit(plain(where, **fields))
    return await scene.take(node, task)


def every_note(task: TaskId, fence: int) -> list[Note]:
    """One note of each kind."""
    return [
        touch(task, fence, MINUTE),
        Note(task, Fence(fence), progress=Progress(50.0, "half")),
        put(task, fence, "datum", b"value"),
        append(task, fence, 0, b"output"),
    ]


async def read(scene: Scene, task: TaskId, stream: str) -> bytes:
    """A whole stream, part by part."""
    whole = b""
    while (part := await scene.store.value(task, f"out:{stream}", start=len(whole))).size > len(whole):
        assert part.body
        whole += part.body
    return whole
