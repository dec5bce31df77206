"""Nodes stop, die and come back; the guardian keeps their commands, or ends them in time, and loses no end."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from ganger.core.errors import FormatTooNew, NodeGone
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Crashed, Fail, Killed, Release, Succeed
from ganger.node.executors.command import CommandRun
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.messages import (
    Forget,
    Frames,
    FromGuardian,
    Hello,
    Listing,
    Refused,
    Start,
    Stop,
    Welcome,
    pack,
    read_from_guardian,
)
from ganger.node.isolation import Isolation
from ganger.node.spool import SpoolKey
from tests.system.guarded_node import Node
from tests.unit.node.guarded import (
    CLOCK,
    PATH,
    WALLS,
    Diary,
    assign,
    begin,
    command,
    executor,
    guardian_of,
    heard,
    is_alive,
    make_executor,
    run,
    shell,
    survivors,
    sweep,
    until,
)


@asynccontextmanager
async def node(folder: Path, **more: int | Isolation) -> AsyncIterator[Node]:
    """A node in a process of its own; nothing of it is left afterwards."""
    made = await Node.start(folder, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.kill()
        sweep(folder)


@pytest.mark.parametrize("walls", WALLS)
def test_a_stopped_node_does_not_keep_its_commands_alive(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        async with node(tmp_path, isolation=walls) as made:
            script = "trap '' TERM; (trap '' TERM; setsid -f sleep 1000); while :; do sleep 1; done"
            pid, end = await made.begin(1, script, trust=1_000)
            made.signal(signal.SIGSTOP)
            await until(lambda: CLOCK.now() >= end - 100)
            assert is_alive(pid)
            await until(lambda: not survivors(tmp_path))
            assert CLOCK.now() <= end + 500
            made.signal(signal.SIGCONT)
            assert await made.hear() == {"task": 1, "outcome": "Release"}

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(200)
def test_no_command_outlives_the_trust_of_a_stopped_node_in_many_stops(tmp_path: Path) -> None:
    stops, late = int(os.environ.get("GANGER_TEST_STOPS", "20")), []

    async def check() -> None:
        async with node(tmp_path) as made:
            for task in range(1, stops + 1):
                _, end = await made.begin(
                    task, "trap '' TERM; setsid -f sleep 1000; while :; do sleep 1; done", trust=300
                )
                made.signal(signal.SIGSTOP)
                await until(lambda: not survivors(tmp_path))
                late.append(CLOCK.now() - end)
                made.signal(signal.SIGCONT)
                assert await made.hear() == {"task": task, "outcome": "Release"}

    asyncio.run(check())
    assert max(late) <= 500
    print(f"{stops} stops, dead {sorted(late)[len(late) // 2]} ms after the end of trust (p50), {max(late)} ms at most")


@pytest.mark.parametrize("walls", WALLS)
def test_a_new_node_adopts_what_runs_and_what_ended_unheard(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        async with node(tmp_path, isolation=walls) as first:
            await first.begin(1, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 5")
            await first.begin(2, "until [ -e gone ]; do sleep 0.02; done; echo unheard; exit 6")
            await first.begin(3, "echo before; kill -9 $$")
            await first.hear()
            guardian = guardian_of(tmp_path).pid
            await first.kill()
            (tmp_path / "gone").touch()
            async with executor(tmp_path, epoch=2) as second:
                runs = await second.adopt()
                assert [(it.task, it.fence) for it in runs] == [(1, 1), (2, 1), (3, 1)]
                assert guardian_of(tmp_path).pid == guardian
                (tmp_path / "go").touch()
                ends = [await it.ended() for it in runs]
                assert [end.outcome for end in ends] == [
                    Fail(reason="it exited with code 5"),
                    Fail(reason="it exited with code 6"),
                    Crashed("it was killed by SIGKILL"),
                ]
                assert [end.data["stdout"] for end in ends] == [b"one\ntwo\n", b"unheard\n", b"before\n"]
                assert await second.adopt() == []
                for it in runs:
                    it.forget()

    asyncio.run(check())


def test_an_adopted_command_can_be_followed_trusted_and_stopped(tmp_path: Path) -> None:
    async def check() -> None:
        async with node(tmp_path) as first:
            await first.begin(1, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; sleep 1000", trust=2_000)
            await first.kill()
            async with executor(tmp_path, epoch=2) as second:
                (adopted,) = await second.adopt()
                adopted.trust(assign(1, b"").trusted_until)
                (tmp_path / "go").touch()
                assert await heard(second, adopted, b"two") == b"one\ntwo\n"
                await adopted.stop("enough")
                assert (await adopted.ended()).outcome == Killed("enough")

    asyncio.run(check())


def test_an_end_is_told_again_until_it_is_forgotten(tmp_path: Path) -> None:
    async def check() -> None:
        first = make_executor(tmp_path)
        ended = await (await begin(first, assign(1, command("true")))).ended()
        await first.close(leave_running=True)
        async with executor(tmp_path, epoch=2) as second:
            (again,) = await second.adopt()
            assert await again.ended() == ended
            again.forget()
        async with executor(tmp_path, epoch=3) as third:
            assert await third.adopt() == []

    asyncio.run(check())


def test_a_guardian_with_nothing_to_keep_ends(tmp_path: Path) -> None:
    async def check() -> None:
        made = make_executor(tmp_path, linger=200)
        await run(made, assign(1, command("true")))
        guardian = guardian_of(tmp_path)
        await made.close(leave_running=True)
        await until(lambda: not guardian.is_running() or guardian.status() == psutil.STATUS_ZOMBIE)
        assert not (tmp_path / "run" / "journal").exists()
        assert not (tmp_path / "run" / "guardian.sock").exists()

    asyncio.run(check())


def test_a_guardian_whose_node_vanished_lingers_and_ends(tmp_path: Path) -> None:
    async def check() -> None:
        made = make_executor(tmp_path, linger=300)
        await run(made, assign(1, command("true")))
        guardian = guardian_of(tmp_path)
        link = made._guardian._link
        assert link is not None
        # What was acknowledged goes out with the next turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        link.close()
        await until(lambda: not guardian.is_running() or guardian.status() == psutil.STATUS_ZOMBIE)
        assert (await run(made, assign(2, command("true")))).outcome == Succeed(b"0")
        assert guardian_of(tmp_path).pid != guardian.pid
        await made.close(leave_running=False)

    asyncio.run(check())


@pytest.mark.parametrize("walls", WALLS)
def test_a_killed_guardian_takes_its_commands_along_before_a_slot_is_free(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, isolation=walls, diary=diary) as made:
            deaf = shell("trap '' TERM; (trap '' TERM; setsid -f sleep 1000); echo up; while :; do sleep 1; done")
            runs = [await begin(made, assign(task, deaf)) for task in range(1, 4)]
            for it in runs:
                await heard(made, it, b"up")
            quick = await begin(made, assign(9, shell("echo kept; exit 4")))
            kept = await quick.ended()
            guardian_of(tmp_path).kill()
            for it in runs:
                ended = await it.ended()
                assert ended.outcome == Crashed("its guardian was killed, and it was ended")
                assert ended.data["stdout"] == b"up\n"
                assert survivors(tmp_path) == []
            assert await quick.ended() == kept
            assert (await run(made, assign(10, command("true")))).outcome == Succeed(b"0")
            assert "guardian_lost" in diary.names()

    asyncio.run(check())


def test_a_stopped_guardian_is_replaced_and_its_commands_are_ended(tmp_path: Path) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, diary=diary, beat=0.1) as made:
            started = await begin(made, assign(1, command("sleep", "1000")))
            stopped = guardian_of(tmp_path)
            stopped.suspend()
            assert isinstance((await started.ended()).outcome, Crashed)
            assert survivors(tmp_path) == []
            assert "guardian_silent" in diary.names()
            assert guardian_of(tmp_path).pid != stopped.pid
            assert (await run(made, assign(2, command("true")))).outcome == Succeed(b"0")

    asyncio.run(check())


def test_a_node_that_was_stopped_does_not_blame_its_guardian(tmp_path: Path) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, diary=diary, beat=0.05) as made:
            started = await begin(made, assign(1, command("sleep", "1000")))
            guardian = guardian_of(tmp_path).pid
            await asyncio.sleep(0)
            # Nothing of the loop runs meanwhile, as if the whole process were stopped.
            subprocess.run(["sleep", "0.6"], check=True)  # noqa: ASYNC221 - that is the point
            await asyncio.wait([asyncio.ensure_future(started.ended())], timeout=0.4)
            assert "guardian_silent" not in diary.names()
            assert guardian_of(tmp_path).pid == guardian
            assert is_alive(started.pid)

    asyncio.run(check())


def test_ends_survive_the_death_of_node_and_guardian(tmp_path: Path) -> None:
    async def check() -> None:
        async with node(tmp_path) as first:
            await first.begin(1, "echo kept; exit 4")
            assert await first.hear() == {"task": 1, "outcome": "Fail"}
            pid, _ = await first.begin(2, "setsid -f sleep 1000; while :; do sleep 1; done")
            await first.kill()
            guardian_of(tmp_path).kill()
            async with executor(tmp_path, epoch=2) as second:
                runs = await second.adopt()
                assert [it.task for it in runs] == [1, 2]
                assert not is_alive(pid)
                assert survivors(tmp_path) == []
                ends = [await it.ended() for it in runs]
                assert ends[0].outcome == Fail(reason="it exited with code 4")
                assert ends[0].data == {"result": b"4", "stdout": b"kept\n", "mixedout": b"kept\n"}
                assert ends[1].outcome == Crashed("its guardian was killed, and it was ended")

    asyncio.run(check())


def test_a_guardian_that_is_told_to_end_hands_its_tasks_back(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            started = await begin(made, assign(1, command("sleep", "1000")))
            guardian_of(tmp_path).terminate()
            assert (await started.ended()).outcome == Release()

    asyncio.run(check())


def test_a_node_that_was_overtaken_is_told_so_and_stays_out(tmp_path: Path) -> None:
    async def check() -> None:
        old = make_executor(tmp_path, epoch=1)
        started = await begin(old, assign(1, command("sleep", "1000")))
        async with executor(tmp_path, epoch=2) as new:
            (adopted,) = await new.adopt()
            with pytest.raises(NodeGone, match="epoch 2"):
                await started.ended()
            with pytest.raises(NodeGone):
                await old.start(assign(2, command("true")))
            with pytest.raises(NodeGone, match="epoch 2"):
                await make_executor(tmp_path, epoch=1).start(assign(3, command("true")))
            assert is_alive(adopted.pid)
            await old.close(leave_running=False)
            assert is_alive(adopted.pid)

    asyncio.run(check())


def test_a_broken_connection_is_made_again_and_nothing_is_lost(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            runs = [await begin(made, assign(task, shell("until [ -e go ]; do sleep 0.02; done"))) for task in (1, 2)]
            guardian = guardian_of(tmp_path).pid
            link = made._guardian._link
            assert link is not None
            link.close()
            await link.lost
            runs[0].trust(assign(1, b"").trusted_until)
            (tmp_path / "go").touch()
            assert [(await it.ended()).outcome for it in runs] == [Succeed(b"0")] * 2
            assert guardian_of(tmp_path).pid == guardian

    asyncio.run(check())


def test_two_nodes_that_start_at_once_share_one_guardian(tmp_path: Path) -> None:
    async def check() -> None:
        first, second = make_executor(tmp_path, epoch=1), make_executor(tmp_path, epoch=1)
        results = await asyncio.gather(
            *(run(made, assign(task, command("true"))) for task, made in enumerate((first, second), 1)),
            return_exceptions=True,
        )
        assert any(not isinstance(result, BaseException) for result in results)
        assert len([it for it in psutil.process_iter(["cmdline"]) if _guards(it, tmp_path)]) == 1
        await second.close(leave_running=False)
        await first.close(leave_running=False)
        sweep(tmp_path)

    asyncio.run(check())


def _guards(process: psutil.Process, folder: Path) -> bool:
    line = process.info["cmdline"] or []
    return "ganger.node.guardian" in line and str(folder / "run") in line


def test_a_run_folder_may_have_a_long_path(tmp_path: Path) -> None:
    async def check() -> None:
        deep = tmp_path / ("long-" * 20) / ("path-" * 20)
        deep.mkdir(parents=True)
        async with executor(deep) as made:
            assert (await run(made, assign(1, command("true")))).outcome == Succeed(b"0")
            folder = deep / "run"
            assert folder.stat().st_mode & 0o777 == 0o700
            assert {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir()} == dict.fromkeys(
                (path.name for path in folder.iterdir()), 0
            )

    asyncio.run(check())


class Foreigner:
    """A node of another version: it speaks the protocol by hand."""

    def __init__(self, folder: Path) -> None:
        self._sock = RunFolder(str(folder / "run")).connect()
        self._sock.settimeout(10)
        self._frames = Frames()
        self._heard: list[FromGuardian] = []

    def say(self, raw: bytes) -> None:
        self._sock.sendall(raw)

    def hear(self) -> FromGuardian | None:
        while not self._heard:
            data = self._sock.recv(1 << 16)
            if not data:
                return None
            self._heard = [message for body in self._frames.feed(data) for message in read_from_guardian(body)]
        return self._heard.pop(0)

    def close(self) -> None:
        self._sock.close()


@asynccontextmanager
async def foreigner(folder: Path) -> AsyncIterator[Foreigner]:
    """Beside a guardian that another node has started and left."""
    first = make_executor(folder, linger=30_000)
    await begin(first, assign(1, command("sleep", "1000")))
    await first.close(leave_running=True)
    made = Foreigner(folder)
    try:
        yield made
    finally:
        made.close()
        sweep(folder)


def test_a_newer_node_and_this_guardian_speak_the_older_protocol(tmp_path: Path) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as newer:
            newer.say(_pack_map({"type": "hello", "epoch": 5, "newest": 2, "oldest": 1, "colour": "blue"}))
            welcome, listing = newer.hear(), newer.hear()
            assert isinstance(welcome, Welcome)
            assert welcome.protocol == 1
            assert isinstance(listing, Listing)
            assert [(it.task, it.fence) for it in listing.running] == [(1, 1)]
            newer.say(_pack_map({"type": "stop", "task": 1, "fence": 1, "text": "enough", "urgency": 9}))
            ended = newer.hear()
            assert getattr(ended, "why", None) == "stop"

    asyncio.run(check())


def _pack_map(message: dict[str, object]) -> bytes:
    import msgspec

    body = msgspec.msgpack.encode([message])
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("hello", [Hello(5, newest=3, oldest=2), Hello(5, newest=0, oldest=0)])
def test_a_node_without_a_common_protocol_is_refused_and_nothing_is_touched(tmp_path: Path, hello: Hello) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as other:
            other.say(pack([hello]))
            refused = other.hear()
            assert isinstance(refused, Refused)
            assert refused.why == "protocol"
            assert other.hear() is None
            assert survivors(tmp_path)

    asyncio.run(check())


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",
        pack([Stop(1, 1)]),
        pack([Start(2, 1, ["true"], {}, "/", 1 << 60)]) + pack([Forget([(1, 1)])]),
    ],
)
def test_whoever_does_not_say_hello_is_shown_the_door(tmp_path: Path, raw: bytes) -> None:
    async def check() -> None:
        async with foreigner(tmp_path) as other:
            other.say(raw)
            with suppress(ConnectionResetError):
                assert other.hear() is None
            assert survivors(tmp_path)

    asyncio.run(check())


async def serve_once(folder: Path, answer: bytes) -> socket.socket:
    """A guardian of another version: it answers the first hello with these bytes."""
    RunFolder(str(folder / "run")).prepare(os.urandom)
    (folder / "run" / "journal").touch()
    listener = RunFolder(str(folder / "run")).listen()
    listener.setblocking(False)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(listener)
        await loop.sock_recv(sock, 1 << 16)
        await loop.sock_sendall(sock, answer)
        await loop.sock_recv(sock, 1 << 16)
        sock.close()

    asyncio.get_running_loop().create_task(serve(), name="another guardian").add_done_callback(lambda _: None)
    return listener


def test_this_node_and_a_newer_guardian_speak_the_older_protocol(tmp_path: Path) -> None:
    async def check() -> None:
        welcome = {"type": "welcome", "epoch": 1, "protocol": 1, "pid": 7, "mood": "fine"}
        running = {"task": 3, "fence": 4, "pid": 9, "serial": 1, "mood": "fine"}
        frame = _pack_map(welcome) + _pack_map({"type": "listing", "running": [running], "ended": [], "lost": []})
        listener = await serve_once(tmp_path, frame)
        made = make_executor(tmp_path)
        (adopted,) = await made.adopt()
        assert (adopted.task, adopted.fence, adopted.pid) == (3, 4, 9)
        await made.close(leave_running=True)
        listener.close()

    asyncio.run(check())


def test_a_guardian_that_refuses_the_protocol_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def check() -> None:
        listener = await serve_once(tmp_path, pack([Refused("protocol", "no common protocol")]))
        with pytest.raises(FormatTooNew, match="no common protocol"):
            await make_executor(tmp_path).adopt()
        listener.close()

    asyncio.run(check())


def test_output_of_an_adopted_command_is_one_stream(tmp_path: Path) -> None:
    """What it said before, between and after two nodes is there once, in order."""

    async def check() -> None:
        async with node(tmp_path) as first:
            await first.begin(1, "for i in $(seq 400); do echo line $i; sleep 0.002; done")
            await first.kill()
            async with executor(tmp_path, epoch=2) as second:
                (adopted,) = await second.adopt()
                assert isinstance(adopted, CommandRun)
                assert (await adopted.ended()).outcome == Succeed(b"0")
                reader = second.spool.read_ended(SpoolKey(TaskId(1), Fence(1), "stdout"))
                assert await reader.read() == "".join(f"line {i}\n" for i in range(1, 401)).encode()

    asyncio.run(check())


def test_an_idle_guardian_costs_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            started = await begin(made, assign(1, command("sleep", "1000", env={"PATH": PATH})))
            guardian = guardian_of(tmp_path)
            before, began = guardian.cpu_times(), time.monotonic()
            await until(lambda: time.monotonic() - began > 1)
            after = guardian.cpu_times()
            assert after.user + after.system - before.user - before.system <= 0.02
            await started.stop("enough")

    asyncio.run(check())
