"""Whatever a task is told to do, a real node gives it a final state and a clear message, and goes on."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from ganger import Ganger
from ganger.core.errors import BadInput
from ganger.core.state import Status
from ganger.core.task import Kind, NewTask
from ganger.wire.specs import CommandSpec, FunctionSpec, encode
from tests.system.harness_node import PATIENCE, Desk, desk, node_in
from tests.unit.node import chores

TWO_HUNDRED_MEGABYTES: Final = 200 << 20


class Bad(NamedTuple):
    """What is wrong, a task that is, and what is said of it: the status, and words of the reason."""

    name: str
    make: Callable[[Desk, Path], NewTask]
    status: int
    words: str


def function(desk: Desk, path: str, *args: object) -> NewTask:
    return NewTask(desk.queue.id, Kind.FUNCTION, encode(FunctionSpec(path, list(args))))


def forbidden(desk: Desk, folder: Path) -> NewTask:
    (folder / "plain.txt").write_text("no program")
    return desk.command(str(folder / "plain.txt"))


def from_nowhere(desk: Desk, folder: Path) -> NewTask:
    (folder / "gone").mkdir()
    spec = encode(CommandSpec(argv=["true"], cwd=str(folder / "gone")))
    (folder / "gone").rmdir()
    return NewTask(desk.queue.id, Kind.COMMAND, spec)


BAD: Final = [
    Bad("no such program", lambda desk, _: desk.command("no-such-program"), 127, "no program no-such-program in PATH"),
    Bad("no permission", forbidden, 126, "may not be executed"),
    Bad("a NUL byte", lambda desk, _: desk.command("echo", "a\0b"), Status.FAILED, "NUL"),
    Bad("the folder is gone", from_nowhere, Status.FAILED, "there is no working directory"),
    Bad("no such module", lambda desk, _: function(desk, "no.such:thing"), Status.FAILED, "ModuleNotFoundError"),
    Bad("no such function", lambda desk, _: desk.call("missing"), Status.FAILED, "has no 'missing'"),
    Bad("no import path", lambda desk, _: function(desk, "chores:"), Status.FAILED, "is no import path"),
    Bad("not printable", lambda desk, _: desk.call("fail_unprintably"), Status.FAILED, "Unprintable"),
    Bad("not to be encoded", lambda desk, _: desk.call("return_socket"), Status.FAILED, "which is not JSON"),
    Bad("200 MB", lambda desk, _: desk.call("return_much", TWO_HUNDRED_MEGABYTES), Status.FAILED, "at most"),
    Bad("an argument of another type", lambda desk, _: desk.call("weekday", 7), Status.FAILED, "the argument day"),
]


def test_each_bad_task_has_its_final_state_and_message_and_the_node_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        async with asyncio.timeout(2 * PATIENCE), desk(tmp_path) as made:
            ids = await made.submit(*(bad.make(made, tmp_path) for bad in BAD))
            async with node_in(tmp_path):
                await made.wait(*ids)
                good = await made.submit(made.command("true"), made.call("add", 1))
                assert await made.wait(*good) == [Status.SUCCEEDED] * 2
            for bad, task in zip(BAD, ids, strict=True):
                found = await made.get(task)
                assert (found.status, bad.words in str(found.reason)) == (bad.status, True), (bad.name, found)

    asyncio.run(check())


def test_bytes_that_are_no_text_are_kept_as_they_are(tmp_path: Path) -> None:
    async def check() -> None:
        async with asyncio.timeout(PATIENCE), desk(tmp_path) as made:
            ids = await made.submit(
                made.shell(r"printf 'a\377\376\0b\n'; printf '\0\200' >&2"), made.call("say", "a\0b")
            )
            async with node_in(tmp_path):
                assert await made.wait(*ids) == [Status.SUCCEEDED] * 2
            assert (await made.engine.read_output(ids[0], "stdout")).body == b"a\xff\xfe\0b\n"
            assert (await made.engine.read_output(ids[0], "stderr")).body == b"\0\x80"
            assert (await made.engine.read_output(ids[1], "stdout")).body.startswith(b"a\0b\n")

    asyncio.run(check())


@pytest.mark.parametrize("argument", [object(), {1: 2}.items(), "\udcff", chores.Unprintable()])
def test_an_argument_that_can_not_be_encoded_is_refused_where_it_is_given(tmp_path: Path, argument: object) -> None:
    app = Ganger(f"sqlite:{tmp_path}/ganger.db")
    task = app.task(chores.add)

    with app, pytest.raises(BadInput):
        task.delay(argument)  # type: ignore[arg-type]
