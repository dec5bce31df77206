"""A command names its secrets; the node puts them in, and shows them to nobody."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from ganger.core.errors import BadInput, StoreUnavailable
from ganger.core.outcome import Fail, Succeed
from ganger.node.executor import Ended
from ganger.node.executors.command import CommandExecutor, Home, make_order
from ganger.node.guardian import remote
from ganger.node.secrets import check_name, check_value
from ganger.wire.specs import CommandSpec, ShellSpec
from tests.unit.node.guarded import PATIENCE, assign, command, executor, shell

HOME = Home({"PATH": "/bin"}, Path("/home"))
VALUE = "hunter2-häslein"


class Known:
    """Secrets that a test knows."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def find(self, name: str) -> str | None:
        return self._values.get(name)


SECRETS = Known({"db": VALUE, "other": "swordfish"})


def test_references_in_environment_arguments_and_input_are_replaced() -> None:
    spec = command(
        "tool", "secret:db", "--password=secret:other", "plain", env={"DB": "secret:db", "X": "y"}, stdin="secret:other"
    )
    order = make_order(assign(1, spec), HOME, 0, SECRETS)
    assert order.argv == ["tool", VALUE, "--password=swordfish", "plain"]
    assert (order.environment["DB"], order.environment["X"]) == (VALUE, "y")
    assert order.stdin == b"swordfish"
    assert sorted(order.masks) == sorted([VALUE.encode(), b"swordfish"])


def test_what_is_no_reference_stays_as_it_is() -> None:
    spec = command("tool", "no secret:db", "x=secret:db", "secret::db", env={"A": "my secret:db"})
    order = make_order(assign(1, spec), HOME, 0, SECRETS)
    assert order.argv == ["tool", "no secret:db", "x=secret:db", "secret:db"]
    assert (order.environment["A"], order.masks) == ("my secret:db", [])


def test_a_script_is_not_searched_but_its_environment_is() -> None:
    order = make_order(assign(1, shell("echo secret:db", env={"DB": "secret:db"})), HOME, 0, SECRETS)
    assert order.argv == ["bash", "-c", "echo secret:db"]
    assert (order.environment["DB"], order.masks) == (VALUE, [VALUE.encode()])


@pytest.mark.parametrize("text", ["secret:none", "secret:", "secret:a/b", "secret:..", "secret:a\nb"])
def test_a_secret_that_is_not_there_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="secret"):
        make_order(assign(1, command("x", env={"A": text})), HOME, 0, SECRETS)


@pytest.mark.parametrize("name", ["", "a b", "../x", ".x", "x" * 101, "a\n", "é"])
def test_a_name_cannot_leave_its_folder(name: str) -> None:
    with pytest.raises(BadInput):
        check_name(name)


@pytest.mark.parametrize("value", ["", "abc", "long\0enough"])
def test_what_cannot_be_masked_is_no_secret(value: str) -> None:
    with pytest.raises(BadInput):
        check_value("x", value)


def run(folder: Path, spec: CommandSpec | ShellSpec) -> Ended:
    """An attempt under a real guardian."""

    async def attempt() -> Ended:
        async with asyncio.timeout(PATIENCE), executor(folder) as plain:
            knowing = CommandExecutor(plain._guardian, plain._home, 0, SECRETS)
            run = await knowing.start(assign(22, spec))
            ended = await run.ended()
            run.forget()
            return ended

    return asyncio.run(attempt())


def list_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_real_command_gets_the_value_and_no_file_of_the_node_ever_has_it(tmp_path: Path) -> None:
    script = 'printf "<%s>" "$DB"; printf %s "${DB:0:5}"; sleep 0.05; printf "%s!" "${DB:5}"; echo "$DB" >&2; cat'
    ended = run(tmp_path, shell(script, env={"DB": "secret:db"}, stdin="secret:other"))
    assert ended.outcome == Succeed(b"0")
    assert (ended.data["stdout"], ended.data["stderr"]) == (b"<***>***!***", b"***\n")
    assert ended.data["mixedout"].count(b"***") == 4
    assert VALUE.encode() not in list_bytes(tmp_path)
    assert b"swordfish" not in list_bytes(tmp_path)


def test_a_program_that_cannot_be_started_does_not_show_it_either(tmp_path: Path) -> None:
    ended = run(tmp_path, command("secret:db"))
    assert isinstance(ended.outcome, Fail)
    assert "***" in (ended.outcome.reason or "")
    assert VALUE.encode() not in list_bytes(tmp_path)


def test_a_missing_secret_fails_the_task_for_good_and_says_what_to_do(tmp_path: Path) -> None:
    ended = run(tmp_path, command("true", env={"A": "secret:none"}))
    assert isinstance(ended.outcome, Fail)
    assert not ended.outcome.again
    assert "ganger secret set none" in (ended.outcome.reason or "")


def test_a_guardian_that_cannot_mask_is_given_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MASKS", 99)
    with pytest.raises(StoreUnavailable, match="older"):
        run(tmp_path, command("true", env={"A": "secret:db"}))
