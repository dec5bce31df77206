"""A function, or a plugin, names its secrets; the node puts them in, and shows them to nobody."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Crashed, Fail, Succeed
from ganger.core.task import PLUGIN
from ganger.node.executor import Ended
from ganger.node.executors.plugin import PluginExecutor
from ganger.node.functions.references import open_arguments
from ganger.node.guardian.launch import Post
from ganger.node.guardian.remote import Guardian
from ganger.node.spool import SpoolKey
from ganger.runtime.entropy import SystemEntropy
from ganger.wire.specs import FunctionSpec, PluginSpec, decode, encode
from tests.unit.node.functional import Works, perform
from tests.unit.node.guarded import PATIENCE, assign, until
from tests.unit.node.test_secrets import Known

pytestmark = pytest.mark.slow

VALUE = "hunter2-5000"
SECRETS = Known({"db": VALUE, "number": "5000"})
FENCE = Fence(7)
HIDDEN = [{"deep": "<***>"}, 5_000, "plain"]


def open_(*args: Any, **kwargs: Any) -> tuple[FunctionSpec, list[bytes]]:
    spec, masks = open_arguments(encode(FunctionSpec("m:f", list(args), kwargs)), SECRETS)
    return decode(spec, FunctionSpec), masks


def test_texts_are_replaced_however_deep_they_lie() -> None:
    spec, masks = open_({"a": ["secret:db", 1]}, "secret::db", "my secret:db", key="secret:number")
    assert (spec.args, spec.kwargs) == ([{"a": [VALUE, 1]}, "secret:db", "my secret:db"], {"key": "5000"})
    assert masks == [VALUE.encode(), b"5000"]
    assert open_("plain")[1] == []


def test_a_reference_that_was_spelt_by_a_stranger_is_one_too() -> None:
    spec, masks = open_arguments(b'{"path": "m:f", "args": ["\\u0073ecret:db"]}', SECRETS)
    assert (decode(spec, FunctionSpec).args, masks) == ([VALUE], [VALUE.encode()])


async def read_all(works: Works, task: TaskId, ended: Ended) -> bytes:
    """Everything that is shown of an attempt."""
    spooled = [works.executor.spool.read_ended(SpoolKey(task, FENCE, name)) for name in ended.streams]
    files = [await one.read(0, 1 << 20) for one in spooled]
    said = b"".join(str(info).encode() for _, _, info in works.said)
    return b"".join([*ended.data.values(), *files, said, repr(ended.outcome).encode()])


MODES = [
    ("tell_everywhere", {}),
    ("tell_everywhere", {"mode": "thread"}),
    ("tell_everywhere_on_loop", {"mode": "loop"}),
]


@pytest.mark.parametrize(("name", "fields"), MODES)
@pytest.mark.parametrize("how", ["return", "raise", "retry"])
def test_no_stream_no_result_and_no_reason_shows_a_secret(
    name: str, fields: dict[str, Any], how: str, tmp_path: Path
) -> None:
    async def scenario(works: Works) -> None:
        assignment = works.assign(name, "secret:db", "", how, **fields)
        (task,) = await works.start(assignment)
        (ended,) = await works.end_of(task)
        shown = await read_all(works, task, ended)
        assert VALUE.encode() not in shown
        assert (b"out ***" in shown, b"log ***" in shown, b"***" in shown[-300:]) == (True, True, True)
        if isinstance(ended.outcome, Succeed):
            assert msgspec.json.decode(ended.outcome.result or b"") == HIDDEN
        else:
            assert isinstance(ended.outcome, Fail)
            assert ended.outcome.delay == (5_000 if how == "retry" else None)

    perform(scenario, tmp_path, secrets=SECRETS)


def test_the_last_words_of_a_dead_function_show_none_either(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (task,) = await works.start(works.assign("tell_everywhere", "secret:db", "", "die"))
        (ended,) = await works.end_of(task)
        assert isinstance(ended.outcome, Crashed)
        shown = await read_all(works, task, ended)
        assert (VALUE.encode() in shown, b"out ***" in shown, b"e***" in shown) == (False, True, True)

    perform(scenario, tmp_path, secrets=SECRETS)


def test_who_follows_a_function_with_secrets_waits_for_its_end(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        (task,) = await works.start(works.assign("tell_everywhere", "secret:db", str(gate), "return"))
        readers = works.executor.watch(task, FENCE)
        await until(lambda: works.said)
        await until(lambda: readers["log"].signal.extent().length)
        assert await readers["log"].take(0, 100) == b"log ***\n"
        assert readers["stdout"].signal.extent().length == 0
        gate.touch()
        (ended,) = await works.end_of(task)
        assert ended.data["stdout"] == b"out ***\n"

    perform(scenario, tmp_path, secrets=SECRETS)


def test_a_secret_that_is_missing_fails_the_function_for_good(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        outcome = (await works.run("say", "secret:none")).outcome
        assert isinstance(outcome, Fail)
        assert not outcome.again
        assert "ganger secret set none" in str(outcome.reason)

    perform(scenario, tmp_path, secrets=SECRETS)


def test_what_another_task_returned_is_no_reference(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        works.results[3] = b'"secret:db"'
        ended = await works.run("say", {"$task": 3})
        assert ended.data["stdout"] == b"secret:db\nfrom below\n"

    perform(scenario, tmp_path, secrets=SECRETS)


def test_a_plugin_is_given_its_secrets_and_shows_none(tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    program.write_text(
        "#!/bin/sh\ngrep -o 'hunter[^\"]*' $1 | tee /dev/stderr >&2\n"
        'printf \'{"status": 1, "stdout": "%s"}\' "$(cat $1 | tr -d \'"\')" > $2\n'
    )
    program.chmod(stat.S_IRWXU)

    async def run() -> Ended:
        guardian = Guardian(Post(tmp_path / "run"), 1, SystemEntropy())
        plugins = PluginExecutor(guardian, {"PATH": "/bin:/usr/bin"}, tmp_path / "papers", secrets=SECRETS)
        assert plugins.knows(str(program))
        async with asyncio.timeout(PATIENCE):
            try:
                assignment = assign(1, encode(PluginSpec({"password": "secret:db"})), kind=f"{PLUGIN}{program}")
                run = await plugins.start(assignment)
                ended = await run.ended()
                run.forget()
            finally:
                await plugins.close(leave_running=False)
        return ended

    ended = asyncio.run(run())
    assert isinstance(ended.outcome, Succeed)
    assert ended.data["stderr"] == b"***\n***\n"
    assert b"password:***" in ended.data["stdout"]
    assert list((tmp_path / "papers").iterdir()) == []
