"""Leaders, members and partitions on the memory backend, in time that is turned by hand."""

import asyncio
import base64
from collections import Counter
from typing import Any

import pytest

from ganger.coordination.coordination import Cluster, Coordination
from ganger.coordination.election import Candidate
from ganger.coordination.hold import Hold
from ganger.coordination.membership import Member, Presence, read_members
from ganger.coordination.partitions import Work, read_task
from ganger.core.errors import BadDocument, BadName, BadNumber, StoreUnavailable
from tests.unit.coordination.world import Wire, World, pass_time, tell

TTL = 1_000


class Log:
    """Who led when, and under which epoch."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.reigns: list[list[Any]] = []
        self.changed = asyncio.Event()

    async def lead(self, hold: Hold) -> None:
        reign = [hold.epoch, self._world.clock.now(), None]
        self.reigns.append(reign)
        self.changed.set()
        try:
            await asyncio.Event().wait()
        finally:
            reign[2] = self._world.clock.now()
            self.changed.set()

    async def reach(self, reigns: int) -> None:
        while len(self.reigns) < reigns:
            self.changed.clear()
            await self.changed.wait()

    def check(self) -> None:
        """Never two at once, and each with a higher epoch than the one before."""
        for before, after in zip(self.reigns, self.reigns[1:], strict=False):
            assert before[0] < after[0]
            assert before[2] is not None
            assert before[2] <= after[1]


async def stand(process: Coordination, log: Log) -> Candidate:
    candidate = process.candidate("upkeep", log.lead, ttl=TTL)
    await candidate.start()
    return candidate


def test_one_leads_and_the_next_follows_at_once_after_a_clean_end() -> None:
    async def story(world: World) -> None:
        log = Log(world)
        first = await stand(world.process()[0], log)
        await log.reach(1)
        others = [await stand(world.process()[0], log) for _ in range(5)]
        await pass_time(world.clock, 10_000)
        assert len(log.reigns) == 1
        assert first.leads

        ended = world.clock.now()
        await first.drain()
        await log.reach(2)
        assert world.clock.now() - ended <= 10
        assert sum(candidate.leads for candidate in others) == 1
        for candidate in others:
            await candidate.stop()
        log.check()

    tell(story)


def test_a_duty_stops_before_the_lease_ends_and_another_leads_within_two_ttls() -> None:
    async def story(world: World) -> None:
        log = Log(world)
        process, wire = world.process()
        first = await stand(process, log)
        await log.reach(1)
        second = await stand(world.process()[0], log)
        await pass_time(world.clock, 3_210)
        wire.cut = True
        cut = world.clock.now()
        await log.reach(2)

        assert log.reigns[0][2] <= cut + TTL
        assert log.reigns[1][1] - cut <= 2 * TTL
        log.check()
        wire.cut = False
        for candidate in (first, second):
            await candidate.stop()

    tell(story)


def test_a_duty_that_fails_gives_the_lead_to_another() -> None:
    async def story(world: World) -> None:
        log = Log(world)
        failures = []

        async def fail(hold: Hold) -> None:
            failures.append(hold.epoch)
            raise ValueError

        failing = world.process()[0].candidate("upkeep", fail, ttl=TTL)
        await failing.start()
        other = await stand(world.process()[0], log)
        await log.reach(1)
        assert failures
        await failing.stop()
        await other.stop()

    tell(story)


def test_who_leads_can_be_asked() -> None:
    async def story(world: World) -> None:
        one, _ = world.process()
        assert (await one.find_leader("upkeep")).holder == ""
        hold = await one.leader("upkeep", ttl=TTL).acquire()

        assert (await one.find_leader("upkeep")).holder == hold.holder
        assert [name for name, _ in await one.list_leaders()] == ["upkeep"]
        await hold.abandon()
        await pass_time(world.clock, 2 * TTL)
        assert (await one.find_leader("upkeep")).holder == ""

    tell(story)


def test_the_list_of_nodes_has_tokens_and_workers() -> None:
    async def story(world: World) -> None:
        cluster = world.process()[0].cluster("etl", ttl=TTL)
        first, second = cluster.join(5, "first"), cluster.join(3, "second")
        for presence in (first, second):
            await presence.start()
            await presence.ready.wait()

        nodes = [{"token": "first", "workers": 5}, {"token": "second", "workers": 3}]
        assert (await world.backend.read("members/etl")).document == {"nodes": nodes}
        assert (first.position, second.position) == (0, 1)
        own = (await world.backend.read("member/etl/first")).document
        assert own is not None
        assert set(own) == {"holder", "expire"}

        await first.drain()
        assert await cluster.members.list() == [Member("second", 3)]
        await second.stop()
        assert await cluster.members.list() == []

    tell(story)


def test_a_member_that_somebody_removed_puts_itself_back() -> None:
    async def story(world: World) -> None:
        cluster = world.process()[0].cluster("etl", ttl=TTL)
        presence = cluster.join(5, "first")
        await presence.start()
        await presence.ready.wait()
        await cluster.members.remove(["first"])
        await pass_time(world.clock, TTL)

        assert await cluster.members.list() == [Member("first", 5)]
        presence.check()
        await presence.stop()

    tell(story)


def test_many_join_at_once_and_none_is_lost() -> None:
    async def story(world: World) -> None:
        presences = [world.process()[0].cluster("etl", ttl=TTL).join(n) for n in range(40)]
        for presence in presences:
            await presence.start()
        await asyncio.gather(*(presence.ready.wait() for presence in presences))

        members = await world.process()[0].cluster("etl").members.list()
        assert sorted(member.workers for member in members) == list(range(40))
        for presence in presences:
            await presence.stop()

    tell(story)


async def die(presence: Presence, wire: Wire) -> None:
    """The process is gone: nothing of it reaches the store any more."""
    wire.cut = True
    await presence.stop()


def test_the_leader_removes_those_that_timed_out_and_nobody_else() -> None:
    async def story(world: World) -> None:
        leader = world.process()[0].cluster("etl", ttl=TTL)
        (dead, wire), (alive, _) = world.process(), world.process()
        presences = [dead.cluster("etl", ttl=TTL).join(1, "dead"), alive.cluster("etl", ttl=TTL).join(1, "alive")]
        for presence in presences:
            await presence.start()
            await presence.ready.wait()
        await leader.members.ensure(Member("foreign", 2))
        await die(presences[0], wire)

        gone: list[str] = []
        for _ in range(40):
            gone += await leader.tidy()
            await pass_time(world.clock, 100)
        assert gone == ["dead"]
        assert [member.id for member in await leader.members.list()] == ["alive", "foreign"]
        assert (await world.backend.read("member/etl/dead")).document is None
        await presences[1].stop()

    tell(story)


def test_a_foreign_node_is_removed_when_it_times_out_on_its_partitions() -> None:
    async def story(world: World) -> None:
        leader = world.process()[0].cluster("etl", ttl=TTL)
        await leader.members.ensure(Member("foreign", 2))
        await leader.partitions.create("p", b"task")
        document = {"holder": "foreign", "expire": world.clock.wall() + TTL, "task": "dGFzaw==", "state": "outstanding"}
        version = (await world.backend.read("partition/etl/p")).version
        version = (await world.backend.write("partition/etl/p", document, version)).version
        for _ in range(9):
            await pass_time(world.clock, 100)
            assert not await leader.tidy()
        renewed = {**document, "expire": world.clock.wall() + TTL}
        await world.backend.write("partition/etl/p", renewed, version)
        await pass_time(world.clock, 500)
        assert not await leader.tidy()

        gone: list[str] = []
        for _ in range(30):
            await pass_time(world.clock, 100)
            gone += await leader.tidy()
        assert gone == ["foreign"]

    tell(story)


def test_a_partition_is_made_held_done_and_removed() -> None:
    async def story(world: World) -> None:
        cluster, other = (world.process()[0].cluster("etl", ttl=TTL) for _ in range(2))
        assert await cluster.partitions.create("p", b"some work")
        assert not await cluster.partitions.create("p", b"other work")
        fresh = {"holder": "", "expire": 0, "task": base64.b64encode(b"some work").decode(), "state": "outstanding"}
        assert (await world.backend.read("partition/etl/p")).document == fresh

        (work,) = await other.partitions.take("node", 5, 0, 1)
        assert (work.name, work.task) == ("p", b"some work")
        held = (await world.backend.read("partition/etl/p")).document
        assert held is not None
        assert held == {**fresh, "holder": "node", "expire": held["expire"]}
        assert 0 <= world.clock.wall() + TTL - held["expire"] <= 20
        assert await cluster.partitions.take("another", 5, 0, 1) == []
        assert await cluster.partitions.remove_done() == []

        assert await work.done()
        assert (await world.backend.read("partition/etl/p")).document == {**fresh, "state": "done"}
        assert await cluster.partitions.take("another", 5, 0, 1) == []
        assert await cluster.partitions.remove_done() == ["p"]
        assert (await world.backend.read("partition/etl/p")).document is None

    tell(story)


def test_a_partition_that_is_given_back_goes_to_another() -> None:
    async def story(world: World) -> None:
        cluster, other = (world.process()[0].cluster("etl", ttl=TTL) for _ in range(2))
        await cluster.partitions.create("p", b"work")
        (work,) = await cluster.partitions.take("node", 1, 0, 1)
        await work.release()

        (again,) = await other.partitions.take("another", 1, 0, 1)
        assert again.hold.epoch > work.hold.epoch
        assert not await work.done()
        await again.done()

    tell(story)


def test_a_follower_that_is_gone_loses_its_partitions_after_its_time() -> None:
    async def story(world: World) -> None:
        (dead, wire), (alive, _) = world.process(), world.process()
        leader = alive.cluster("etl", ttl=TTL)
        await leader.partitions.create("p", b"work")
        (work,) = await dead.cluster("etl", ttl=TTL).partitions.take("dead", 1, 0, 1)
        wire.cut = True
        began = world.clock.now()
        taken: list[Work] = []
        while not taken:
            taken = await leader.partitions.take("alive", 1, 0, 1)
            await pass_time(world.clock, 50)

        assert TTL < world.clock.now() - began <= 2 * TTL
        assert not work.hold.is_trusted
        wire.cut = False
        assert not await work.done()
        assert await taken[0].done()

    tell(story)


def test_followers_begin_at_their_own_places() -> None:
    async def story(world: World) -> None:
        cluster = world.process()[0].cluster("etl", ttl=TTL)
        for number in range(12):
            await cluster.partitions.create(f"p{number:02}", b"work")
        taken = await cluster.partitions.take("a", 2, 2, 4)

        assert [work.name for work in taken] == ["p06", "p07"]
        for work in taken:
            await work.release()

    tell(story)


def test_spoilt_partitions_are_named_or_left_out() -> None:
    async def story(world: World) -> None:
        cluster = world.process()[0].cluster("etl", ttl=TTL)
        await world.backend.write("partition/etl/odd", {"holder": 5, "expire": "x"}, None)
        await world.backend.write("partition/etl/state", {"holder": "", "expire": 0, "task": "", "state": "lost"}, None)
        await cluster.partitions.create("good", b"work")
        (work,) = await cluster.partitions.take("a", 5, 0, 1)
        assert work.name == "good"
        await work.done()

        spoilt = {"holder": "", "expire": 0, "task": "!", "state": "outstanding"}
        await world.backend.write("partition/etl/task", spoilt, None)
        with pytest.raises(BadDocument, match="base64"):
            await cluster.partitions.take("a", 5, 0, 1)
        with pytest.raises(BadName):
            await cluster.partitions.create("a\nb", b"")

    tell(story)


@pytest.mark.parametrize(
    "document",
    [{}, {"nodes": 5}, {"nodes": [5]}, {"nodes": [{"token": "a"}]}, {"nodes": [{"token": "a", "workers": -1}]},
     {"nodes": [{"token": "", "workers": 1}]}, {"nodes": [{"token": "a", "workers": True}]}],
)  # fmt: skip
def test_a_spoilt_list_of_nodes_is_named(document: dict[str, Any]) -> None:
    with pytest.raises(BadDocument, match="members/etl"):
        read_members("members/etl", document)


def test_more_bad_input_is_refused() -> None:
    async def story(world: World) -> None:
        cluster = world.process()[0].cluster("etl", ttl=TTL)
        with pytest.raises(BadNumber):
            await cluster.members.ensure(Member("a", -1))
        with pytest.raises(BadDocument):
            read_task("p", {"task": 5})

    tell(story)


def test_a_configuration_brings_up_a_cluster_of_which_everything_went_down() -> None:
    async def story(world: World) -> None:
        one, two = (world.process()[0].cluster("etl", ttl=TTL) for _ in range(2))
        assert await one.read_configuration() == {}
        await asyncio.gather(one.configure({"inputs": ["s3"]}), two.configure({"limit": 3}))

        assert await world.process()[0].cluster("etl").read_configuration() == {"inputs": ["s3"], "limit": 3}

    tell(story)


class Node:
    """A whole node: a member, a candidate, and a follower that works on partitions."""

    def __init__(self, world: World, done: Counter[str], log: Log, number: int) -> None:
        process, self.wire = world.process()
        self.cluster: Cluster = process.cluster("etl", ttl=TTL)
        self.id = f"node-{number}"
        self.presence = self.cluster.join(2, self.id)
        self.candidate = process.candidate("etl", self._lead, ttl=TTL)
        self._world, self._done, self._log = world, done, log
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.presence.start()
        await self.candidate.start()
        self._loop = asyncio.create_task(self._follow())

    async def kill(self) -> None:
        self.wire.cut = True
        if self._loop is not None:
            self._loop.cancel()
        await self.candidate.stop()
        await self.presence.stop()

    async def _lead(self, hold: Hold) -> None:
        leading = asyncio.create_task(self._log.lead(hold))
        try:
            while True:
                await self.cluster.tidy()
                await pass_time(self._world.clock, 500)
        finally:
            leading.cancel()
            await asyncio.wait([leading])

    async def _follow(self) -> None:
        while True:
            try:
                members = len(await self.cluster.members.list())
                for work in await self.cluster.partitions.take(self.id, 2, self.presence.position, members):
                    await self._work(work)
            except StoreUnavailable:
                pass
            await pass_time(self._world.clock, 700)

    async def _work(self, work: Work) -> None:
        await pass_time(self._world.clock, 1_300)
        # What is written under a hold that is trusted counts; with the epoch a store would refuse the rest.
        if work.hold.is_trusted:
            self._done[work.name] += 1
            await work.done()


def test_a_hundred_members_with_random_deaths_do_all_the_work_under_one_leader() -> None:
    async def story(world: World) -> None:
        done, log, chance = Counter[str](), Log(world), world.process()[0]._room.entropy
        nodes = [Node(world, done, log, number) for number in range(100)]
        maker = world.process()[0].cluster("etl", ttl=TTL)
        for number in range(300):
            await maker.partitions.create(f"{number:03}", str(number).encode())
        for node in nodes:
            await node.start()
        alive = list(nodes)
        for _ in range(60):
            victim = alive.pop(int(chance.uniform() * len(alive)))
            await victim.kill()
            await pass_time(world.clock, 250)
        async with asyncio.timeout(600):
            while len(done) < 300 or (await maker.partitions.look()).entries:
                await pass_time(world.clock, 1_000)
        await pass_time(world.clock, 5 * TTL)

        listed = {member.id for member in await maker.members.list()}
        assert listed == {node.id for node in alive}
        log.check()
        assert len(log.reigns) >= 1
        for node in alive:
            await node.kill()

    tell(story)
