"""The lists of options: said twice, and the same twice."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from ganger.client import command, shell
from ganger.client.calls import draft
from ganger.client.options import CommandWishes, Options, Surrounds, Wishes
from ganger.core.ids import QueueId
from ganger.core.task import NewTask, OnConflict
from ganger.wire.specs import CommandSpec, Limits, ShellSpec, Surroundings


def _hints(value: type) -> dict[str, Any]:
    hints = get_type_hints(value)
    return {field.name: hints[field.name] for field in fields(value)}


def test_the_keywords_are_the_fields() -> None:
    assert get_type_hints(Wishes) == _hints(Options)
    assert get_type_hints(CommandWishes) == _hints(Options) | _hints(Surrounds)
    assert set(_hints(Surrounds)) == set(Surroundings.__struct_fields__)


def test_the_defaults_of_a_command_are_those_of_its_spec() -> None:
    assert command(["true"]).spec == CommandSpec(argv=["true"])
    assert shell("true").spec == ShellSpec(script="true")


def test_the_options_of_a_command_go_to_where_they_belong() -> None:
    call = command(["true"], cwd="/", env={"A": "1"}, limits=Limits(cpu=1), grace=7, queue="q", retries=2)

    assert call.spec == CommandSpec(argv=["true"], cwd="/", env={"A": "1"}, limits=Limits(cpu=1), grace=7_000)
    assert call.options == Options(queue="q", retries=2)
    assert call.using(priority=3).options == Options(queue="q", retries=2, priority=3)
    with pytest.raises(TypeError, match="colour"):
        command(["true"], colour="red")  # type: ignore[call-arg]


def test_a_call_that_wishes_nothing_is_a_task_that_says_nothing_special() -> None:
    made = draft(command(["true"])).task

    assert made == NewTask(QueueId(0), made.kind, made.spec)


def test_what_a_taken_key_means_is_said_with_the_key_alone() -> None:
    assert draft(command(["true"], key="k")).task.on_conflict == OnConflict.RETURN
    assert draft(command(["true"], key="k", on_conflict="refuse")).task.on_conflict == OnConflict.REFUSE
    assert draft(command(["true"], on_conflict="return")).task.on_conflict == OnConflict.REFUSE
