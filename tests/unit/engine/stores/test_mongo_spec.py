"""A spec comes back as it was, whatever strangers are shown of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.engine.stores.mongo.spec import Spec, from_bytes

PLUGIN = "plugin:Disbatch::Plugin::Demo"


def test_a_json_object_is_shown_as_parameters() -> None:
    assert from_bytes("command", b'{"argv":["echo","1"]}') == Spec({"argv": ["echo", "1"]})


def test_of_a_plugins_spec_the_params_are_shown() -> None:
    assert from_bytes(PLUGIN, b'{"params":{"user":"ashley"}}') == Spec({"user": "ashley"})


@pytest.mark.parametrize(
    "body", [b"", b"spec", b"[1]", b'{ "spaced": 1}', b'{"large":123456789012345678901234567890}', b'{"a":1,"a":2}']
)
def test_what_is_no_such_object_is_kept_as_bytes(body: bytes) -> None:
    assert from_bytes("command", body) == Spec({}, body)


def test_params_that_are_no_object_are_kept_as_bytes() -> None:
    assert from_bytes(PLUGIN, b'{"params":[1]}') == Spec({}, b'{"params":[1]}')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


kinds = st.sampled_from([PLUGIN, "shell"])


@given(body=st.binary(), kind=kinds)
def test_any_bytes_come_back(body: bytes, kind: str) -> None:
    assert from_bytes(kind, body).to_bytes(kind) == body


@given(value=json_values, inner=st.booleans(), kind=kinds)
def test_any_json_comes_back(value: object, inner: bool, kind: str) -> None:
    body = json.dumps({"params": value} if inner else value, separators=(",", ":"), ensure_ascii=False)
    encoded = body.encode("utf-8", "replace")
    assert from_bytes(kind, encoded).to_bytes(kind) == encoded
