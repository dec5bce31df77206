"""What clients of `/v1` send, and what becomes of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput, GangerError, StalePage, UnknownParent
from ganger.core.graph import Edge
from ganger.core.ids import QueueId
from ganger.core.state import Status
from ganger.wire.specs import CommandSpec, FunctionSpec, ShellSpec, decode
from ganger.wire.v1 import pages, words
from ganger.wire.v1.requests import draft_nodes, read_nodes
from ganger.wire.v1.specs import change_spec, list_spec_keys, make_spec, show_spec

QUEUES = {"default": QueueId(1), "q": QueueId(2)}


def read(*nodes: Any) -> Any:
    return draft_nodes(read_nodes(json.dumps(list(nodes)).encode()), QUEUES)


def node(kind: str = "command", data: Any = None, **said: Any) -> Any:
    return {"metadata": {"type": kind, **said}, "data": {"command": "true"} if data is None else data}


def test_a_command_becomes_a_spec_and_the_rest_becomes_data() -> None:
    (draft,) = read(node(data={"command": "echo", "args": ["a"], "cwd": "/tmp", "x": 1, "y": "t"}, queue="q"))

    assert decode(draft.task.spec, CommandSpec) == CommandSpec(argv=["echo", "a"], cwd="/tmp")
    assert draft.data == [("x", b"1"), ("as:x", b"json"), ("y", b"t")]
    assert (draft.queue, draft.task.description) == ("q", "echo a")


def test_a_shell_command_becomes_a_script() -> None:
    (draft,) = read(node("shell command", {"command": "a | b"}))

    assert draft.task.kind == "shell"
    assert decode(draft.task.spec, ShellSpec) == ShellSpec(script="a | b")


def test_parents_are_ids_names_or_none() -> None:
    parents = ["@a", 7, {"id": "8", "on": "failed"}, "root"]
    drafts = read(node(ref="a"), node(parents=parents, parent="7"), node(parent="root"))

    assert drafts[1].task.parents == (Edge(7), Edge(-1), Edge(8, "failed"))
    assert drafts[2].task.parents == ()


def test_a_name_that_nobody_has_is_an_unknown_parent() -> None:
    with pytest.raises(UnknownParent, match="task 1 of the request"):
        read(node(), node(parent="@b"))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_body_breaks_the_reader(body: bytes) -> None:
    with pytest.raises(GangerError):
        read_nodes(body + b"]")


@pytest.mark.parametrize("kind", ["command", "shell", "function", "plugin:p", "condition", "payload", "group"])
def test_every_kind_says_which_data_are_its_spec(kind: str) -> None:
    assert list_spec_keys(kind) or kind == "group"
    assert show_spec(kind, b"") == {}


def test_one_key_of_a_spec_is_changed_and_the_others_stay() -> None:
    spec = make_spec("function", {"path": "a:b", "args": [1], "grace": 7})

    changed = change_spec("function", spec, {"args": [2], "grace": None})

    assert decode(changed, FunctionSpec) == FunctionSpec("a:b", [2])


def test_a_spec_that_nobody_can_read_is_shown_as_it_is() -> None:
    assert show_spec("command", b"odd") == {"spec": "odd"}
    assert show_spec("command", b'{"argv": []}') == {"spec": '{"argv": []}'}


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_state_that_can_be_asked_for(status: Status) -> None:
    assert status in words.read_states(words.name_state(status))


def test_codes_of_plugins_and_of_strangers_have_states_too() -> None:
    assert (words.name_state(77), words.name_state(-99)) == ("failed", "unknown")


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "9" * 30, "٣", " 1"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        words.read_id(text)


def test_a_page_belongs_to_its_question() -> None:
    question = pages.name_question(1, ["command", None])

    assert pages.read_position("7", question, question) == 7
    assert pages.read_position(None, None, question) is None
    for other in (None, pages.name_question(2, ["command", None]), pages.name_question(1, [None, "command"])):
        with pytest.raises(StalePage):
            pages.read_position("7", other, question)
