"""Output that is read while it comes: who is followed, and pieces that are sent again."""

import asyncio

from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.state import Verdict
from ganger.core.task import Claimed
from ganger.engine.store import (
    FOLLOWED_TOPIC,
    LONGEST_FOLLOW,
    MOST_FOLLOWED,
    OUTPUT_TOPIC,
    Configure,
    NodeChange,
    Note,
    Tend,
)
from ganger.testing.contracts.scene import TOKEN, Scene, StoreContract, append, plain, story

LASTS = 10_000
PATIENCE = 10.0


class LiveContract(StoreContract):
    @story
    async def test_a_node_is_told_which_of_its_tasks_are_followed(self, scene: Scene) -> None:
        mine, other = await hold(scene, "mine"), await hold(scene, "other")
        assert await followed(scene, mine.holder) == ()
        assert await scene.write(follow(mine.id), follow(other.id)) == []
        assert await followed(scene, mine.holder) == (mine.id,)
        assert await followed(scene, other.holder) == (other.id,)

    @story
    async def test_following_ends_by_itself_unless_it_is_said_again(self, scene: Scene) -> None:
        held = await hold(scene)
        await scene.write(follow(held.id))
        scene.clock.advance(LASTS - 1)
        await scene.beat(held.holder)
        await scene.write(follow(held.id))
        scene.clock.advance(LASTS - 1)
        assert await followed(scene, held.holder) == (held.id,)
        scene.clock.advance(1)
        assert await followed(scene, held.holder) == ()

    @story
    async def test_nobody_is_believed_to_follow_for_ever(self, scene: Scene) -> None:
        held = await hold(scene)
        await scene.write(follow(held.id, 1 << 60))
        scene.clock.advance(LONGEST_FOLLOW // 2)
        assert await followed(scene, held.holder) == (held.id,)
        scene.clock.advance(LONGEST_FOLLOW // 2)
        assert await followed(scene, held.holder) == ()

    @story
    async def test_a_task_can_be_followed_before_it_is_taken(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        assert await scene.write(follow(task)) == []
        assert await followed(scene, node) == ()
        await scene.claim(node, queue)
        assert await followed(scene, node) == (task,)

    @story
    async def test_what_has_ended_or_is_not_there_cannot_be_followed(self, scene: Scene) -> None:
        held = await hold(scene)
        await scene.settle("succeed", held)
        refused = await scene.write(follow(held.id), follow(TaskId(999_999)))
        assert refused == [(0, Verdict.WRONG_STATUS), (1, Verdict.GONE)]

    @story
    async def test_who_follows_leaves_no_trace(self, scene: Scene) -> None:
        held = await hold(scene)
        before, told = await scene.task(held.id), len(await scene.events())
        await scene.write(follow(held.id))
        assert await scene.task(held.id) == before
        assert len(await scene.events()) == told

    @story
    async def test_holders_are_woken_when_somebody_begins_to_follow(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        heard = asyncio.Event()
        stop = scene.store.listen((FOLLOWED_TOPIC,), lambda _: heard.set())
        await scene.write(follow(task))
        await scene.claim(node, queue)
        async with asyncio.timeout(PATIENCE):
            await heard.wait()
        heard.clear()
        held = await hold(scene, "another")
        await scene.write(follow(held.id))
        async with asyncio.timeout(PATIENCE):
            await heard.wait()
        stop()

    @story
    async def test_readers_are_woken_by_output(self, scene: Scene) -> None:
        held = await hold(scene)
        heard = asyncio.Event()
        stop = scene.store.listen((OUTPUT_TOPIC.format(held.id),), lambda _: heard.set())
        await scene.write(append(held.id, held.fence, 0, b"a line\n"))
        async with asyncio.timeout(PATIENCE):
            await heard.wait()
        stop()

    @story
    async def test_only_so_many_are_followed_at_once_and_the_latest_are_kept(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        tasks = await scene.submit(*[plain(queue)] * (MOST_FOLLOWED + 1))
        await scene.write(*map(follow, tasks[:1]))
        scene.clock.advance(1)
        await scene.write(*map(follow, tasks[1:]))
        await scene.claim(node, ids=(tasks[0], tasks[-1]), most=2)
        assert await followed(scene, node) == (tasks[-1],)

    @story
    async def test_a_piece_that_is_sent_again_with_more_leaves_no_gap_and_no_double(self, scene: Scene) -> None:
        held = await hold(scene)
        digits = b"0123456789"
        for start, end in ((0, 2), (2, 4), (2, 6), (6, 7), (7, 8), (3, 9), (4, 5), (1, 2), (0, 10)):
            assert await scene.write(append(held.id, held.fence, start, digits[start:end])) == []
            whole = await read(scene, held)
            assert whole == digits[: len(whole)]
            assert len(whole) >= end
        assert await scene.write(append(held.id, held.fence, 10, b"ab"), append(held.id, held.fence, 0, b"01")) == []
        assert await read(scene, held) == b"0123456789ab"
        await scene.settle("succeed", held)
        assert (await scene.store.tend(Tend(trim_output=12))).done == 0


def follow(task: TaskId, length: int = LASTS) -> Note:
    return Note(task, Fence(0), follow=length)


async def followed(scene: Scene, node: NodeId) -> tuple[TaskId, ...]:
    return (await scene.store.configure(Configure(node=NodeChange(node, TOKEN, beat=True)))).followed


async def hold(scene: Scene, name: str = "q", lease: int = 2 * LONGEST_FOLLOW) -> Claimed:
    """A fresh task in the hands of a fresh node."""
    queue, node = await scene.queue(name), await scene.node(f"node of {name}", lease=lease)
    return await scene.take(node, await scene.add(queue))


async def read(scene: Scene, held: Claimed) -> bytes:
    """The whole stream, part by part, from each offset on."""
    whole = b""
    while (part := await scene.store.value(held.id, "out:stdout", len(whole), 3, held.fence)).size > len(whole):
        assert part.body
        whole += part.body
    for offset in range(len(whole)):
        assert (await scene.store.value(held.id, "out:stdout", offset, 1, held.fence)).body == whole[
            offset : offset + 1
        ]
    return whole
