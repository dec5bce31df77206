"""An owner and those who connect to it, in one process: also those who do not behave."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ganger.core.errors import DuplicateKey, PayloadTooLarge, StoreClosed, StoreError, StoreNotADatabase
from ganger.databases.sqlite import Limits, SharedFile
from ganger.databases.sqlite.versions import PROTOCOL
from ganger.databases.sqlite.wire import Call, Frame, Hello, Listen, Parser, Reply, Wake, Welcome, pack
from tests.unit.databases.counter import Counted, Line, first, lines, open_counter, opened, until


class RawClient:
    """A client that says exactly what the test wants."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(path) + "-socket")
        self.sock.settimeout(60)
        self.parser = Parser(1 << 26)
        self.frames: list[Frame] = []

    def send(self, *frames: Frame) -> None:
        self.sock.sendall(b"".join(pack(frame) for frame in frames))

    def hear(self) -> Frame | None:
        """The next frame, or None at the end of the connection."""
        while not self.frames:
            if not (data := self.sock.recv(1 << 20)):
                return None
            self.frames = self.parser.feed(data)
        return self.frames.pop(0)

    def close(self) -> None:
        self.sock.close()


def hello(client: bytes = b"a" * 16) -> Hello:
    return Hello(PROTOCOL, PROTOCOL, client, 1, "counter", 1)


def call(slot: int, seq: int, line: Line, *, operation: str = "submit", again: bool = False) -> Call:
    return Call(slot, seq, again, operation, msgspec.Raw(msgspec.msgpack.encode(line)))


async def with_client(path: Path, talk: Callable[[RawClient], None]) -> None:
    client = RawClient(path)
    try:
        await asyncio.to_thread(talk, client)
    finally:
        client.close()


def test_two_handles_in_one_process_are_an_owner_and_its_client(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db") as client:
            assert (owner.owns, client.owns) == (True, False)
            assert await client.call("twice", Line("ada", 1)) == [1, 2]
            with pytest.raises(DuplicateKey) as caught:
                await client.call("refuse", Line("ada", 3))
            assert caught.value.fields == {"key": "ada", "ids": [3]}
            with pytest.raises(StoreError, match="ZeroDivisionError"):
                await client.call("crash", Line("ada", 4))
            assert await owner.read(lines) == await client.read(lines) == [("ada", 1), ("ada", 2)]

    asyncio.run(scenario())


def test_more_units_than_slots_wait_at_home_and_are_all_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db"), opened(tmp_path / "c.db", limits=Limits(slots=3)) as client:
            totals = await asyncio.gather(*(client.call("submit", Line("ada", n)) for n in range(200)))
            assert sorted(totals) == list(range(1, 201))

    asyncio.run(scenario())


def test_a_client_whose_owner_closes_becomes_the_owner_and_its_calls_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = await open_counter(tmp_path / "c.db")
        async with opened(tmp_path / "c.db") as client:
            calls = [asyncio.create_task(client.call("submit", Line("ada", n))) for n in range(300)]
            await owner.close()
            await asyncio.gather(*calls)
            assert client.owns
            assert await client.call("count", None) == 300

    asyncio.run(scenario())


def test_a_unit_sent_twice_is_done_once_and_answered_twice_alike(tmp_path: Path) -> None:
    def talk(client: RawClient) -> None:
        client.send(hello(), call(0, 1, Line("ada", 1)), call(0, 1, Line("ada", 1), again=True))
        assert isinstance(client.hear(), Welcome)
        assert client.hear() == client.hear() == Reply(0, 1, msgspec.Raw(b"\x01"))
        client.send(call(0, 2, Line("ada", 2), again=True))
        assert client.hear() == Reply(0, 2, msgspec.Raw(b"\x02"))

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            await with_client(tmp_path / "c.db", talk)
            assert await owner.read(lines) == [("ada", 1), ("ada", 2)]

    asyncio.run(scenario())


def test_a_unit_that_was_run_with_others_and_is_sent_again_is_done_once(tmp_path: Path) -> None:
    def talk(client: RawClient) -> None:
        page = msgspec.Raw(msgspec.msgpack.encode([Line("ada", 1)]))
        client.send(hello(), *(Call(slot, 1, False, "page", page) for slot in range(20)))
        assert isinstance(client.hear(), Welcome)
        first = {
            reply.slot: bytes(reply.body) for reply in (client.hear() for _ in range(20)) if isinstance(reply, Reply)
        }
        client.send(*(Call(slot, 1, True, "page", page) for slot in range(20)))
        again = {
            reply.slot: bytes(reply.body) for reply in (client.hear() for _ in range(20)) if isinstance(reply, Reply)
        }
        assert len(first) == 20
        assert first == again

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            await with_client(tmp_path / "c.db", talk)
            assert len(await owner.read(lines)) == 20

    asyncio.run(scenario())


def test_a_unit_that_wrote_nothing_leaves_no_receipt(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db") as client:
            await client.call("count", None)
            await asyncio.gather(client.call("refuse", Line("ada", 1)), return_exceptions=True)
            assert await receipts(owner) == 0
            await client.call("submit", Line("ada", 1))
            assert await receipts(owner) == 1

    asyncio.run(scenario())


async def receipts(shared: SharedFile) -> int:
    return await shared.read(lambda connection: first(connection, "SELECT count(*) FROM unit"))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (1 << 31).to_bytes(4),
        pack(Wake(["a"])),
        pack(call(0, 1, Line("ada", 1))),
        pack(hello()) * 2,
        (3).to_bytes(4) + b"\xc1\xc1\xc1",
    ],
)
def test_a_client_that_talks_nonsense_is_cut_and_the_owner_goes_on(tmp_path: Path, nonsense: bytes) -> None:
    def talk(client: RawClient) -> None:
        client.sock.sendall(nonsense)
        while client.hear() is not None:
            pass

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            await with_client(tmp_path / "c.db", talk)
            assert await owner.call("submit", Line("ada", 1)) == 1

    asyncio.run(scenario())


def test_a_request_that_does_not_fit_is_an_error_of_that_unit_alone(tmp_path: Path) -> None:
    def talk(client: RawClient) -> None:
        wrong = Call(1, 1, False, "submit", msgspec.Raw(msgspec.msgpack.encode({"no": "line"})))
        client.send(hello(), wrong, call(2, 2, Line("ada", 1), operation="fly"), call(3, 3, Line("ada", 1)))
        heard = [client.hear() for _ in range(4)]
        assert [type(frame).__name__ for frame in heard] == ["Welcome", "Failure", "Failure", "Reply"]

    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            await with_client(tmp_path / "c.db", talk)

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_cut_and_the_others_are_served(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=1 << 16)

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=limits) as owner:
            deaf = RawClient(tmp_path / "c.db")
            deaf.send(hello(), *(call(n, n, Line("ada", 1, 50_000), operation="return") for n in range(40)))
            for n in range(20):
                assert await owner.call("submit", Line("bob", n)) == n + 1
            received = await asyncio.to_thread(_read_to_the_end, deaf)
            assert received < 40 * 50_000
            deaf.close()

    asyncio.run(scenario())


def _read_to_the_end(client: RawClient) -> int:
    received = 0
    try:
        while data := client.sock.recv(1 << 20):
            received += len(data)
    except ConnectionResetError:
        pass
    return received


def test_a_client_that_reads_slowly_gets_everything(tmp_path: Path) -> None:
    def talk(client: RawClient) -> None:
        client.send(hello(), *(call(n, n, Line("ada", 1, 100_000), operation="return") for n in range(30)))
        assert isinstance(client.hear(), Welcome)
        seen = [frame for frame in (client.hear() for _ in range(30)) if isinstance(frame, Reply)]
        assert [frame.seq for frame in seen] == list(range(30))

    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            await with_client(tmp_path / "c.db", talk)

    asyncio.run(scenario())


def test_one_that_connects_and_says_nothing_is_cut_after_a_while(tmp_path: Path) -> None:
    def talk(client: RawClient) -> None:
        assert client.hear() is None

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=Limits(stalled_ms=50)):
            await with_client(tmp_path / "c.db", talk)

    asyncio.run(scenario())


def test_a_client_that_comes_again_is_known_and_its_old_connection_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            first = RawClient(tmp_path / "c.db")
            first.send(hello())
            assert isinstance(await asyncio.to_thread(first.hear), Welcome)
            second = RawClient(tmp_path / "c.db")
            second.send(hello())
            assert isinstance(await asyncio.to_thread(second.hear), Welcome)
            assert await asyncio.to_thread(first.hear) is None
            first.close()
            second.close()

    asyncio.run(scenario())


def test_messages_over_the_limit_are_refused_on_both_ways(tmp_path: Path) -> None:
    limits = Limits(frame_bytes=10_000)

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=limits), opened(tmp_path / "c.db", limits=limits) as client:
            with pytest.raises(PayloadTooLarge):
                await client.call("submit", Line("x" * 20_000, 1))
            with pytest.raises(PayloadTooLarge):
                await client.call("return", Line("ada", 1, 20_000))
            assert await client.call("submit", Line("ada", 1)) == 1

    asyncio.run(scenario())


def test_large_messages_pass(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db"), opened(tmp_path / "c.db") as client:
            assert await client.call("submit", Line("x" * 8_000_000, 1)) == 1
            assert len(await client.call("return", Line("ada", 1, 3_000_000))) == 3_000_000

    asyncio.run(scenario())


def test_another_application_is_refused_by_the_owner(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            with pytest.raises(StoreNotADatabase):
                await open_counter(tmp_path / "c.db", application="another")

    asyncio.run(scenario())


def test_a_first_wake_up_follows_the_wish_to_listen_so_that_nothing_falls_in_between(tmp_path: Path) -> None:
    def talk(client: RawClient) -> None:
        client.send(hello(), Listen(["line:ada"]), call(0, 1, Line("ada", 1)))
        kinds = [type(client.hear()).__name__ for _ in range(4)]
        assert kinds == ["Welcome", "Wake", "Reply", "Wake"]

    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            await with_client(tmp_path / "c.db", talk)

    asyncio.run(scenario())


def test_listeners_are_told_of_their_topics_until_they_stop_listening(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "c.db") as client:
            for listening, writing in ((owner, client), (client, owner), (owner, owner), (client, client)):
                heard: list[str] = []
                stop = listening.listen(["line:ada", "line:eve"], heard.append)
                await until(lambda: bool(heard) or listening.owns)  # noqa: B023
                heard.clear()
                await writing.call("submit", Line("ada", 1))
                await until(lambda: "line:ada" in heard)  # noqa: B023
                await writing.call("submit", Line("bob", 1))
                stop()
                stop()
                await writing.call("submit", Line("ada", 1))
                assert set(heard) == {"line:ada"}

    asyncio.run(scenario())


def test_a_unit_that_fails_wakes_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            heard: list[str] = []
            owner.listen(["line:ada", "line:eve"], heard.append)
            await asyncio.gather(
                owner.call("refuse", Line("ada", 1)), owner.call("submit", Line("eve", 1)), return_exceptions=True
            )
            await until(lambda: bool(heard))
            assert heard == ["line:eve"]

    asyncio.run(scenario())


def test_after_closing_everything_is_refused_and_closing_again_does_no_harm(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as keeps_going:
            for _ in range(2):
                shared = await open_counter(tmp_path / "c.db")
                await shared.close()
                await shared.close()
                with pytest.raises(StoreClosed):
                    await shared.call("count", None)
                with pytest.raises(StoreClosed):
                    await shared.read(lines)
            assert await keeps_going.call("submit", Line("ada", 1)) == 1

    asyncio.run(scenario())


def test_a_reader_can_only_read_and_sees_one_snapshot(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            with pytest.raises(StoreError):
                await owner.read(lambda connection: connection.execute("DELETE FROM line").fetchall())

            def look_twice(connection: object) -> tuple[int, int]:
                before = len(lines(connection))  # type: ignore[arg-type]
                owner.call_blocking("submit", Line("ada", 1))
                return before, len(lines(connection))  # type: ignore[arg-type]

            assert await owner.read(look_twice) == (0, 0)
            assert await owner.read(lambda connection: len(lines(connection))) == 1

    asyncio.run(scenario())


def test_the_log_is_written_back_and_does_not_grow_without_end(tmp_path: Path) -> None:
    probe = Counted()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=Limits(checkpoint_pages=20), probe=probe) as shared:
            for n in range(100):
                await shared.call("submit", Line("ada", n, 4_000))
            assert (tmp_path / "c.db-wal").stat().st_size < 100 * 4_096

    asyncio.run(scenario())
    assert probe.count("checkpoint.after") >= 5
