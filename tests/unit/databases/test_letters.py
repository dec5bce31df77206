"""Letters: units that are safe when they are handed in, and run once, whoever dies."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from ganger.core.clock import Moment, Wall
from ganger.core.errors import DuplicateKey, StoreBroken
from ganger.databases.sqlite import Limits, Session, SharedFile, prune_units
from ganger.databases.sqlite.bag import Bag, read_letters, wrap
from ganger.databases.sqlite.place import LocalHost, Place
from ganger.databases.sqlite.unit import ClientId
from ganger.databases.sqlite.wire import Call, pack
from ganger.testing import FakeClock
from tests.unit.databases.actor import Actor, Troupe, troupe
from tests.unit.databases.counter import Counted, Line, lines, open_counter, opened, read_file, until
from tests.unit.databases.test_resending import Visit, owning

HOUR = 60 * 60_000
AT_ONCE = Limits(letters_after=0, letter_patience_ms=0)
EAGER = {"letters_after": 0, "letter_patience_ms": 0}
PATIENT = Limits(letters_after=0, letter_patience_ms=60_000)


def post(shared: SharedFile, who: str, many: int, start: int = 0) -> list[Any]:
    return [shared.post_blocking("submit", Line(who, n)) for n in range(start, start + many)]


def bags(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-bag-*"))


async def happens(condition: Callable[[], bool]) -> bool:
    try:
        await until(condition, 30)
    except TimeoutError:
        return False
    return True


def test_a_letter_is_run_once_and_tells_its_reply_as_often_as_it_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db", limits=AT_ONCE) as client:
            letters = await asyncio.to_thread(post, client, "ada", 50)
            assert len(bags(tmp_path)) == 1
            replies = [await asyncio.to_thread(letter.wait, 60) for letter in letters]
            assert replies == [await asyncio.to_thread(letter.wait, 60) for letter in letters]
            assert sorted(replies) == list(range(1, 51))
            assert await owner.read(lines) == [("ada", n) for n in range(50)]
        assert not bags(tmp_path)

    asyncio.run(scenario())


def test_a_process_sees_the_letters_that_it_wrote(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db"), opened(tmp_path / "c.db", limits=AT_ONCE) as client:
            for n in range(1, 30):
                await asyncio.to_thread(post, client, "ada", 1, n)
                assert len(await client.read(lines)) == n

    asyncio.run(scenario())


def test_the_first_few_and_the_large_and_those_of_an_owner_are_called_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        narrow = Limits(letters_after=3, letter_bytes=30)
        async with opened(tmp_path / "c.db", limits=AT_ONCE) as owner, opened(tmp_path / "c.db", limits=narrow) as few:
            await asyncio.to_thread(post, owner, "owner", 5)
            await asyncio.to_thread(post, few, "few", 3)
            await asyncio.to_thread(post, few, "x" * 40, 1)
            assert not bags(tmp_path)
            await asyncio.to_thread(post, few, "few", 1)
            assert len(bags(tmp_path)) == 1
            assert len(await few.read(lines)) == 10

    asyncio.run(scenario())


def test_a_letter_that_is_refused_tells_why_and_leaves_the_others_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db", limits=AT_ONCE) as client:
            refused = await asyncio.to_thread(client.post_blocking, "refuse", Line("ada", 1))
            (kept,) = await asyncio.to_thread(post, client, "bob", 1)
            with pytest.raises(DuplicateKey, match="ada is taken"):
                await asyncio.to_thread(refused.wait, 60)
            assert await asyncio.to_thread(kept.wait, 60) == 1
            assert await owner.read(lines) == [("bob", 0)]
        assert not bags(tmp_path)

    asyncio.run(scenario())


def test_a_letter_of_a_process_that_died_when_it_was_safe_is_run_by_the_owner(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, troupe() as company:
            doomed = await company.hire(tmp_path / "c.db", limits=EAGER, die_at=("bag.put", 5))
            assert await doomed.ask("post", who="ada", count=20) == {}
            assert await happens(lambda: not bags(tmp_path))
            assert await owner.read(lines) == [("ada", n) for n in range(5)]

    asyncio.run(scenario())


def test_a_letter_that_comes_alone_is_not_written_down_if_its_answer_comes_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, seen = FakeClock(), Counted()
        opening: dict[str, Any] = {"limits": PATIENT, "clock": clock, "probe": seen}
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db", **opening) as client:
            (alone,) = await asyncio.to_thread(post, client, "ada", 1)
            assert alone.told
            assert not seen.count("bag.put")
            await asyncio.to_thread(post, client, "ada", 2, 1)
            assert seen.count("bag.put") == 2
            clock.advance(60_000)
            await asyncio.to_thread(post, client, "ada", 1, 3)
            assert seen.count("bag.put") == 2
            assert len(await client.read(lines)) == len(await owner.read(lines)) == 4

    asyncio.run(scenario())


def test_the_first_letter_after_units_that_were_called_for_does_not_come_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen, limits = Counted(), replace(PATIENT, letters_after=2)
        opening: dict[str, Any] = {"limits": limits, "clock": FakeClock(), "probe": seen}
        async with opened(tmp_path / "c.db"), opened(tmp_path / "c.db", **opening) as client:
            await asyncio.to_thread(post, client, "ada", 3)
            assert seen.count("bag.put") == 1
            assert len(await client.read(lines)) == 3

    asyncio.run(scenario())


def test_a_letter_that_comes_alone_to_a_stopped_owner_is_safe_all_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "c.db", rank=2)
            client = await company.hire(tmp_path / "c.db", limits={"letters_after": 0, "letter_patience_ms": 1})
            await owner.stop()
            assert (await client.ask("post", who="ada", count=3)) == {"posted": 3}
            client.kill()
            owner.kill(signal.SIGKILL)
        async with opened(tmp_path / "c.db") as heir:
            assert await heir.read(lines) == [("ada", n) for n in range(3)]

    asyncio.run(scenario())


async def post_to_stopped_owner(company: Troupe, path: Path) -> tuple[Actor, Actor]:
    """An owner that is stopped, and a client that has posted twenty letters all the same."""
    owner, client = await company.hire(path, rank=2), await company.hire(path, limits=EAGER)
    await owner.stop()
    assert (await client.ask("post", who="ada", count=20)) == {"posted": 20}
    return owner, client


def test_letters_are_run_when_process_and_owner_are_dead(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner, client = await post_to_stopped_owner(company, tmp_path / "c.db")
            client.kill()
            owner.kill(signal.SIGKILL)
        async with opened(tmp_path / "c.db") as heir:
            assert await heir.read(lines) == [("ada", n) for n in range(20)]
            assert await happens(lambda: not bags(tmp_path))

    asyncio.run(scenario())


def test_letters_of_a_stopped_process_are_run_by_a_new_owner_and_not_again_when_it_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner, client = await post_to_stopped_owner(company, tmp_path / "c.db")
            await client.stop()
            owner.kill()
            async with opened(tmp_path / "c.db", rank=3) as heir:
                assert await happens(lambda: len(read_file(tmp_path / "c.db")) == 20)
                client.kill(signal.SIGCONT)
                assert await client.ask("close") == {"closed": True}
                assert await heir.read(lines) == [("ada", n) for n in range(20)]
            assert not bags(tmp_path)

    asyncio.run(scenario())


def welcome_and_hang_up(listener: socket.socket) -> None:
    with Visit(listener).sock:
        pass


def test_a_letter_that_was_read_from_its_bag_is_not_run_again_when_it_comes_at_last(tmp_path: Path) -> None:
    path = tmp_path / "c.db"

    async def scenario() -> None:
        async with opened(path):
            pass
        with owning(path) as listener:
            visit = asyncio.create_task(asyncio.to_thread(welcome_and_hang_up, listener))
            client = await open_counter(path, limits=AT_ONCE)
            await visit
            # Nobody is there to send them to: they wait at home, and are in the bag.
            letters = await asyncio.to_thread(post, client, "ada", 5)
            assert not any(letter.told for letter in letters)
        for letter in letters:
            await asyncio.to_thread(letter.wait, 60)
        assert client.owns
        assert await client.read(lines) == [("ada", n) for n in range(5)]
        await client.close()

    asyncio.run(scenario())


def test_letters_reach_whoever_owns_the_file_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=AT_ONCE) as client:
            stop, posted = threading.Event(), 0

            def write_on() -> None:
                nonlocal posted
                while not stop.is_set():
                    client.post_blocking("submit", Line("ada", posted))
                    posted += 1

            writing = asyncio.create_task(asyncio.to_thread(write_on))
            for _ in range(6):
                async with opened(tmp_path / "c.db", rank=2) as other:
                    assert other.owns
                    seen = posted
                    assert await happens(lambda: posted > seen + 20)  # noqa: B023 - it is waited for here
            stop.set()
            await writing
            assert sorted(await client.read(lines)) == [("ada", n) for n in range(posted)]

    asyncio.run(scenario())


def test_a_full_bag_is_emptied_before_it_is_filled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganger.databases.sqlite.bag._FULL", 500)

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db", limits=AT_ONCE) as client:
            await asyncio.to_thread(post, client, "ada", 200)
            (bag,) = bags(tmp_path)
            assert bag.stat().st_size < 1 << 19
            assert len(await client.read(lines)) == len(await owner.read(lines)) == 200

    asyncio.run(scenario())


class Disk(LocalHost):
    """A disk that can be full."""

    full = False

    def free(self, folder: Path) -> int:
        return 0 if self.full else super().free(folder)


def test_a_letter_that_meets_a_full_disk_is_run_when_there_is_space_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk, limits = Disk(), Limits(letters_after=0, retry_ms=20, space_check_ms=0)
        seen = Counted()
        opening: dict[str, Any] = {"host": disk, "limits": limits, "probe": seen}
        async with opened(tmp_path / "c.db", **opening) as owner, opened(tmp_path / "c.db", limits=limits) as client:
            (before,) = await asyncio.to_thread(post, client, "ada", 1)
            assert await asyncio.to_thread(before.wait, 60) == 1
            disk.full = True
            (letter,) = await asyncio.to_thread(post, client, "bob", 1)
            tried = seen.count("scribe.begun")
            assert await happens(lambda: seen.count("scribe.begun") > tried + 2)
            assert not letter.told
            disk.full = False
            assert await asyncio.to_thread(letter.wait, 60) == 2
            assert await owner.read(lines) == [("ada", 0), ("bob", 0)]

    asyncio.run(scenario())


def test_a_forked_child_does_not_keep_the_bag_of_its_parent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, troupe() as company:
            client = await company.hire(tmp_path / "c.db", limits=EAGER)
            assert (await client.ask("post", who="ada", count=3)) == {"posted": 3}
            child = (await client.ask("leave_child"))["pid"]
            try:
                assert len(bags(tmp_path)) == 1
                client.kill()
                assert await happens(lambda: not bags(tmp_path))
                assert len(await owner.read(lines)) == 3
            finally:
                os.kill(child, signal.SIGKILL)

    asyncio.run(scenario())


CLIENT = ClientId(bytes(range(16)))
HEAD, MARK = 24, 16


def letter(seq: int, who: str = "ada") -> Call:
    return Call(64, seq, False, "submit", msgspec.Raw(msgspec.msgpack.encode(Line(who, seq))), letter=True)


def put(bag: Bag, call: Call) -> None:
    assert bag.make_room(len(bytes(call.body)))
    bag.put(call.seq, pack(call))


def content(place: Place) -> bytes:
    (path,) = place.bags()
    return path.read_bytes()


def read_numbers(content: bytes) -> list[int] | StoreBroken:
    try:
        return [call.seq for call in read_letters(content, CLIENT).calls]
    except StoreBroken as error:
        return error


def test_a_torn_letter_and_the_rest_of_older_ones_end_the_reading(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "c.db")
    place.database.touch()
    bag = Bag(place, CLIENT)
    for seq in range(1, 6):
        put(bag, letter(seq))
    written = content(place)
    assert read_numbers(written) == [1, 2, 3, 4, 5]
    size = written.index(bytes(64))
    step = (size - MARK) // 5
    for cut in range(1, size):
        torn = written[:cut] + bytes(100)
        assert read_numbers(torn) == list(range(1, cut // step + 1))
        assert not read_letters(torn, CLIENT).damage or cut < HEAD
    bag.empty()
    put(bag, letter(6))
    assert read_numbers(content(place)) == [6]
    put(bag, letter(7, "somebody with a longer name"))
    assert read_numbers(content(place)) == [6, 7]
    bag.close(remove=True)
    assert not place.bags()


def test_a_flipped_bit_costs_no_other_letter_and_is_never_silent(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "c.db")
    place.database.touch()
    bag = Bag(place, CLIENT)
    for seq in range(1, 9):
        put(bag, letter(seq, "of the round before"))
    bag.empty()
    for seq in range(9, 13):
        put(bag, letter(seq))
    written = bytearray(content(place))
    whole = read_letters(bytes(written), CLIENT)
    for bit in range(8 * len(whole.whole)):
        written[bit // 8] ^= 1 << bit % 8
        found = read_letters(bytes(written), CLIENT)
        written[bit // 8] ^= 1 << bit % 8
        lost = [call for call in whole.calls if call not in found.calls]
        assert [call for call in found.calls if call not in whole.calls] == []
        assert len(lost) <= 1
        assert bool(lost) == bool(found.damage)
    bag.close(remove=True)


def test_what_a_letter_holds_cannot_pass_for_a_letter(tmp_path: Path) -> None:
    forged = wrap(50, pack(letter(50, "mallory")), 0)
    place = Place.of(tmp_path / "c.db")
    place.database.touch()
    bag = Bag(place, CLIENT)
    holding = msgspec.Raw(msgspec.msgpack.encode(forged.decode("latin-1")))
    put(bag, Call(64, 1, False, "submit", holding, letter=True))
    put(bag, letter(2))
    written = bytearray(content(place))
    written[0] ^= 1
    found = read_letters(bytes(written), CLIENT)
    assert [call.seq for call in found.calls] == [2]
    assert found.damage
    bag.close(remove=True)


def test_what_is_whole_in_a_damaged_bag_is_run_and_the_bag_is_kept_and_told(tmp_path: Path) -> None:
    class Heard:
        def __init__(self) -> None:
            self.told: list[tuple[str, dict[str, object]]] = []

        def event(self, name: str, **fields: object) -> None:
            self.told.append((name, fields))

    heard = Heard()
    place = Place.of(tmp_path / "c.db")

    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            pass
        bag = Bag(place, CLIENT)
        for seq in range(1, 11):
            put(bag, letter(seq))
        bag.close(remove=False)
        (path,) = place.bags()
        written = bytearray(path.read_bytes())
        written[written.index(b"ada") + 1] ^= 4
        path.write_bytes(written)
        async with opened(tmp_path / "c.db", telemetry=heard) as owner:
            assert [n for _, n in await owner.read(lines)] == list(range(2, 11))
            assert not place.bags()
            (kept,) = place.find_damaged()
            assert kept.read_bytes() == bytes(written)
        ((name, fields),) = heard.told
        assert (name, fields["kept"], fields["letters_run"]) == ("bag_damaged", str(kept), 9)

    asyncio.run(scenario())


def test_receipts_stay_as_long_as_there_is_a_bag(tmp_path: Path) -> None:
    clock = FakeClock(now=10 * HOUR)

    def prune() -> int:
        connection = apsw.Connection(str(tmp_path / "c.db"))
        it = Session(connection, Moment(clock.now() + 2 * HOUR), Wall(clock.wall() + 2 * HOUR), None)
        pruned = prune_units(it, it.wall - HOUR)
        connection.close()
        return pruned

    async def scenario() -> list[int]:
        async with opened(tmp_path / "c.db", clock=clock):
            async with opened(tmp_path / "c.db", clock=clock, limits=AT_ONCE) as client:
                (letter,) = await asyncio.to_thread(post, client, "ada", 1)
                await asyncio.to_thread(letter.wait, 60)
                with_bag = prune()
            return [with_bag, prune()]

    assert asyncio.run(scenario()) == [0, 1]


def test_letters_that_were_run_are_not_run_again_after_a_reboot(tmp_path: Path) -> None:
    clock = FakeClock()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", clock=clock) as owner, troupe() as company:
            client = await company.hire(tmp_path / "c.db", limits=EAGER)
            assert (await client.ask("post", who="ada", count=5)) == {"posted": 5}
            assert len((await client.ask("read", sql="SELECT n FROM line"))["rows"]) == 5
            (bag,) = bags(tmp_path)
            left_behind = bag.read_bytes()
            client.kill()
            assert await happens(lambda: not bags(tmp_path))
            assert len(await owner.read(lines)) == 5
            bag.write_bytes(left_behind)
        clock.reboot()
        async with opened(tmp_path / "c.db", clock=clock) as owner:
            assert await happens(lambda: not bags(tmp_path))
            assert len(await owner.read(lines)) == 5

    asyncio.run(scenario())


def test_a_bag_that_nobody_understands_is_left_and_holds_nobody_up(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "c.db")
    place.database.touch()
    bag = Bag(place, CLIENT)
    put(bag, Call(64, 1, False, "of the future", msgspec.Raw(b"\xc0"), letter=True))
    bag.close(remove=False)

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            assert await owner.call("submit", Line("ada", 1)) == 1
        assert len(bags(tmp_path)) == 1

    asyncio.run(scenario())
