"""Probes on a real loopback: what answers, what does not, and what can never be asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ganger.core.errors import BadInput, NotAllowed
from ganger.core.ids import QueueId
from ganger.core.queue import Policy, Queue
from ganger.core.state import Status
from ganger.engine.conditions import Judge, new_condition
from ganger.node.probes import COMMANDS_AT_ONCE, UNTRUSTED, Place, Probes
from ganger.runtime.clock import SystemClock
from ganger.wire.specs import CommandExits, ConditionSpec, FileThere, PortAnswers, UrlAnswers
from tests.unit.engine.stage import Stage, play

QUEUE = Queue(QueueId(1), "mail", Policy())
TRUSTING = UNTRUSTED._replace(trusted=frozenset({"127.0.0.1"}))
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ask(probe: FileThere | PortAnswers | UrlAnswers | CommandExits, patience: float = 5.0) -> bool:
    async def run() -> bool:
        probes = Probes(patience=patience)
        try:
            return await probes.probe(probe)
        finally:
            probes.close()

    return asyncio.run(run())


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    served: list[asyncio.Future[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done = asyncio.get_running_loop().create_future()
        served.append(done)
        with suppress(OSError, EOFError):
            await serve(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        done.set_result(None)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)
        await asyncio.gather(*served)


def says(answer: bytes, heard: list[bytes] | None = None) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(request)
        writer.write(answer)
        await writer.drain()

    return serve


def ask_server(serve: Serve, path: str, status: int | None = None, patience: float = 5.0) -> bool:
    async def run() -> bool:
        probes = Probes(rule=TRUSTING, patience=patience)
        async with serving(serve) as port:
            answer = await probes.probe(UrlAnswers(f"http://127.0.0.1:{port}{path}", status))
        probes.close()
        return answer

    return asyncio.run(run())


def test_a_file_is_there_or_gone(tmp_path: Path) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.touch()
    answers = [ask(FileThere(str(path), gone=wish)) for path in (there, gone) for wish in (False, True)]
    assert answers == [True, False, False, True]


def test_a_port_answers_while_somebody_listens() -> None:
    async def run() -> None:
        probes = Probes()
        async with serving(says(b"")) as port:
            assert await probes.probe(PortAnswers("127.0.0.1", port))
        assert not await probes.probe(PortAnswers("127.0.0.1", port))
        probes.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "status", "truth"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", None, True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", None, False),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", 404, True),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", None, False),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", None, True),
        (b"SSH-2.0-OpenSSH\r\n\r\n", None, False),
        (b"", None, False),
        (b"HTTP/1.1 " + b"9" * 100_000, None, False),
        (b"HTTP/1.1 100 Continue\r\n" + b"a\r\n" * 1_000, None, False),
    ],
)
def test_a_url_answers_with_its_status(answer: bytes, status: int | None, truth: bool) -> None:
    assert ask_server(says(answer), "/health", status) is truth


def test_a_url_is_asked_with_its_path_query_and_host() -> None:
    heard: list[bytes] = []
    ask_server(says(b"HTTP/1.1 200 OK\r\n\r\n", heard), "/a%20b?c=d#e")
    assert heard[0].startswith(b"GET /a%20b?c=d HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_server_that_is_silent_is_a_no_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    assert not ask_server(silent, "/", patience=0.2)


@pytest.mark.parametrize(
    "probe",
    [
        FileThere("relative"),
        FileThere("/a\0b"),
        UrlAnswers("file:///etc/passwd"),
        UrlAnswers("http://"),
        UrlAnswers("http://host:99999/"),
        UrlAnswers("http://host/a b"),
        UrlAnswers("http://host/\r\nX: y"),
        PortAnswers("", 80),
        PortAnswers("localhost", 0),
        CommandExits(["true"]),
    ],
)
def test_what_can_never_be_asked_is_an_error(probe: FileThere | PortAnswers | UrlAnswers | CommandExits) -> None:
    with pytest.raises(BadInput):
        ask(probe)


def test_commands_are_run_by_whoever_was_handed_in_and_few_at_a_time() -> None:
    running, most = 0, 0

    async def run_command(probe: CommandExits) -> int:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1
        return int(probe.argv[0])

    async def run() -> list[bool]:
        probes = Probes(run_command)
        answers = await asyncio.gather(*(probes.probe(CommandExits([str(n % 2)])) for n in range(12)))
        probes.close()
        return answers

    assert asyncio.run(run()) == [True, False] * 6
    assert most == COMMANDS_AT_ONCE


def test_a_node_takes_what_requires_no_more_than_its_labels() -> None:
    async def run() -> list[bool]:
        probes = Probes(place=Place(labels=("lab", "gpu")))
        probes.close()
        return [probes.takes(FileThere("/"), QUEUE, requires) for requires in ((), ("lab",), ("lab", "tape"))]

    assert asyncio.run(run()) == [True, True, False]


def test_a_node_without_commands_leaves_those_of_conditions_to_others() -> None:
    async def run_command(probe: CommandExits) -> int:
        return 0

    async def run() -> list[bool]:
        idle, busy = Probes(), Probes(run_command)
        for probes in (idle, busy):
            probes.close()
        return [probes.takes(CommandExits(["true"]), QUEUE, ()) for probes in (idle, busy)]

    assert asyncio.run(run()) == [False, True]


@pytest.mark.parametrize(
    ("place", "queue", "taken"),
    [
        (Place(), QUEUE, True),
        (Place(queues=("mail", "other")), QUEUE, True),
        (Place(queues=("other",)), QUEUE, False),
        (Place(ignore=("mail",)), QUEUE, False),
        (Place("ada"), QUEUE._replace(policy=Policy(pin=("bob",))), False),
        (Place("ada"), QUEUE._replace(policy=Policy(ignore=("ada",))), False),
        (Place("ada"), QUEUE._replace(policy=Policy(pin=("ada",))), True),
    ],
)
def test_a_node_asks_for_the_queues_that_it_takes(place: Place, queue: Queue, taken: bool) -> None:
    async def run_command(probe: CommandExits) -> int:
        return 0

    async def run() -> set[bool]:
        probes = Probes(run_command, place)
        probes.close()
        asked = (FileThere("/"), PortAnswers("a", 1), UrlAnswers("https://a/"), CommandExits(["true"]))
        return {probes.takes(probe, queue, ()) for probe in asked}

    assert asyncio.run(run()) == {taken}


@pytest.mark.parametrize(
    ("kinds", "taken"),
    [
        (("function",), [False, False]),
        (("function", "condition"), [True, False]),
        (("shell",), [True, True]),
        (None, [True, True]),
    ],
)
def test_a_node_asks_what_its_kinds_allow(kinds: tuple[str, ...] | None, taken: list[bool]) -> None:
    async def run_command(probe: CommandExits) -> int:
        return 0

    async def run() -> list[bool]:
        probes = Probes(run_command, Place(kinds=kinds))
        probes.close()
        return [probes.takes(probe, QUEUE, ()) for probe in (UrlAnswers("https://a/"), CommandExits(["true"]))]

    assert asyncio.run(run()) == taken


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:80/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/",
        "http://example.com/",
    ],
)
def test_a_url_that_no_webhook_may_reach_is_not_asked_either(url: str) -> None:
    with pytest.raises(NotAllowed, match="probe_hosts"):
        ask(UrlAnswers(url))


def test_a_condition_about_a_forbidden_url_fails_with_the_sentence() -> None:
    async def scenario(stage: Stage) -> None:
        probes = Probes()
        judge = Judge(stage.engine, stage.clock, probes)
        await judge.start()
        (task,) = await stage.submit(new_condition(stage.queue.id, ConditionSpec(UrlAnswers("http://127.0.0.1/"))))
        assert (await stage.engine.wait([task], 5)).statuses == [Status.FAILED]
        assert "probe_hosts" in ((await stage.get(task)).reason or "")
        await judge.stop()
        probes.close()

    play(scenario, clock=SystemClock())


def test_a_wait_for_a_real_file_ends_when_it_is_there(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        probes = Probes()
        judge = Judge(stage.engine, stage.clock, probes)
        await judge.start()
        spec = ConditionSpec(FileThere(str(tmp_path / "flag")), every=100)
        (task,) = await stage.submit(new_condition(stage.queue.id, spec))
        assert not (await stage.engine.wait([task], 0.3)).done
        (tmp_path / "flag").touch()
        assert (await stage.engine.wait([task], 5)).statuses == [Status.SUCCEEDED]
        await judge.stop()
        probes.close()

    play(scenario, clock=SystemClock())
