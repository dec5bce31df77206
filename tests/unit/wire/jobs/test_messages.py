"""What workers say, and what is none of it."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.wire.jobs.messages import (
    ASK_STATUS,
    Failed,
    Progress,
    Registration,
    Status,
    WorkerStatus,
    read_message,
)
from ganger.wire.jobs.words import is_guid, read_guid, say_status

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"code": 0, "name": "n", "id": "i", "token": "t"}, Registration("n", "i", "t")),
        ({"code": 1, "status": 0}, Status(WorkerStatus.BUSY)),
        ({"code": 1, "status": 1, "more": 5}, Status(WorkerStatus.READY)),
        ({"code": 3, "percent": None, "info": "x"}, Progress(None, "x")),
        ({"code": 3, "percent": 7}, Progress(7.0, None)),
        ({"code": 4, "logs": None, "info": None}, Failed(None, None)),
        ({"code": 4}, Failed(None, None)),
    ],
)
def test_the_messages_of_a_worker(said: dict[str, object], meant: object) -> None:
    assert read_message(json.dumps(said).encode()) == meant


@given(st.dictionaries(st.sampled_from(["code", "name", "id", "token", "status", "percent", "info", "logs"]), ANYTHING))
def test_anything_else_is_refused_and_breaks_nothing(said: dict[str, object]) -> None:
    with suppress(BadInput):
        read_message(json.dumps(said).encode())


@given(st.binary(max_size=50))
def test_what_is_no_json_is_refused(said: bytes) -> None:
    with pytest.raises(BadInput):
        read_message(b"\xff" + said)


@pytest.mark.parametrize("name", ["", " x", "a\nb", "x" * 201])
def test_a_name_is_short_and_printable(name: str) -> None:
    with pytest.raises(BadInput, match="name"):
        read_message(json.dumps({"code": 0, "name": name, "id": "i"}).encode())


def test_the_status_request_is_simply_its_code() -> None:
    assert json.loads(ASK_STATUS) == {"code": 2}


@pytest.mark.parametrize(
    ("code", "word"),
    [(-8, "pending"), (-7, "failed"), (-1, "running"), (1, "complete"), (77, "failed"), (-99, "pending")],
)
def test_every_status_has_a_word(code: int, word: str) -> None:
    assert say_status(code) == word


def test_a_guid_of_another_store_names_no_job() -> None:
    guid = "00000000-0000-0007-0000-000000000005"
    assert is_guid(guid)
    assert read_guid(7, guid) == 5
    assert read_guid(8, guid) is None
    assert read_guid(7, "5") is None
