"""A node calls what an app has declared, and what its operator allows by name."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganger import Ganger
from ganger.core.errors import NotRegistered
from ganger.core.outcome import Fail
from ganger.node.functions.binding import Allowed, find
from tests.unit.node.functional import Works, perform

HERE = __name__
app = Ganger("memory:")


@app.task
def declared(number: int) -> int:
    return number + 1


def plain(number: int) -> int:
    return number + 2


def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapper(*args: Any) -> Any:
        return call(*args)

    return wrapper


twice = decorate(declared)
reached = subprocess.getoutput
partly = functools.partial(plain, 1)


class Shelf:
    held = declared


@pytest.mark.parametrize("name", ["declared", "twice", "Shelf.held"])
def test_a_declared_function_is_found_by_its_path(name: str) -> None:
    assert find(f"{HERE}:{name}").call(1) == 2


FORBIDDEN = [
    "subprocess:getoutput",
    "os:system",
    "posix:system",
    "builtins:eval",
    "builtins:exec",
    "importlib:import_module",
    "ganger.cli.main:main",
    f"{HERE}:plain",
    f"{HERE}:reached",
    f"{HERE}:partly",
    f"{HERE}:subprocess.getoutput",
    f"{HERE}:declared._call",
    f"{HERE}:declared.__wrapped__",
    f"{HERE}:declared.delay",
    f"{HERE}:declared.__class__",
    f"{HERE}:app.shell",
    f"{HERE}:Shelf",
    f"{HERE}:app.task",
]


@pytest.mark.parametrize("path", FORBIDDEN)
def test_what_no_app_has_declared_is_refused_with_a_sentence(path: str) -> None:
    with pytest.raises(NotRegistered, match=r"put @app.task on it, .* setting allow .*\[not_registered\]"):
        find(path)


def test_a_module_of_the_standard_library_is_not_even_imported() -> None:
    assert "this" not in sys.modules
    with pytest.raises(NotRegistered):
        find("this:anything")
    assert "this" not in sys.modules


def test_a_module_of_ones_own_may_be_called_as_one_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from ganger import Ganger\napp = Ganger('memory:')\n@app.task\ndef ring():\n    return 'ding'\n"
    (tmp_path / "chunk.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "chunk", raising=False)

    assert find("chunk:ring").call() == "ding"
    monkeypatch.delitem(sys.modules, "chunk")


@pytest.mark.parametrize("pattern", ["tests.*", f"{HERE}.plain", "*"])
def test_what_the_operator_allows_is_called(pattern: str) -> None:
    assert find(f"{HERE}:plain", Allowed((pattern,))).call(1) == 3


@pytest.mark.parametrize("pattern", ["test", "tests", "other.*", f"{HERE}.pla", "plain", HERE])
def test_a_pattern_means_the_whole_name(pattern: str) -> None:
    with pytest.raises(NotRegistered):
        find(f"{HERE}:plain", Allowed((pattern,)))


@pytest.mark.parametrize(
    "name",
    [
        "subprocess.getoutput",
        "reached",
        "partly",
        "sys.exit",
        "app.shell",
        "Shelf.__init__",
        "plain.__get__",
        "plain.__globals__.get",
        "Shelf.__subclasses__",
    ],
)
def test_an_allowed_module_is_no_way_to_what_others_define(name: str) -> None:
    with pytest.raises(NotRegistered):
        find(f"{HERE}:{name}", Allowed((f"{HERE}.*",)))


def test_a_task_that_names_such_a_function_fails_once_and_for_good(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        for path in ("subprocess:getoutput", "os:system", "builtins:eval"):
            ended = await works.run(path, f"touch {tmp_path}/evil")
            assert isinstance(ended.outcome, Fail)
            assert not ended.outcome.again
            assert "[not_registered]" in (ended.outcome.reason or "")
        assert not (tmp_path / "evil").exists()

    perform(scenario, tmp_path)


def test_functions_find_what_they_are_given_in_their_environment_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_NODE", "x")

    async def scenario(works: Works) -> None:
        ended = await works.run("list_environment")
        assert ended.outcome.result == b'["GIVEN","PYTHONPATH"]'  # type: ignore[union-attr]

    perform(scenario, tmp_path, environment={"GIVEN": "1"})
