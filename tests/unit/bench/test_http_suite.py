"""The suite of the HTTP API is whole, and its client knows when an answer is all there."""

from __future__ import annotations

import inspect

import pytest

from bench.http.load import RefusedError, Target, is_whole
from bench.http.rates import write_body
from bench.suites.http import Sizes, http_suite
from bench.work import resolve
from ganger.wire.v1.requests import read_nodes

HEAD = b"HTTP/1.1 201 Created\r\ncontent-type: x\r\ncontent-length: 4\r\n\r\n"


def test_every_goal_stands_on_figures_of_the_suite() -> None:
    suite = http_suite(Sizes())
    keys = [figure.key for load in suite.loads for figure in load.figures]
    assert len(keys) == len(set(keys))
    assert {key for goal in suite.goals for key in (goal.ours, goal.beside)} <= set(keys)
    assert {goal.number for goal in suite.goals} == {8}


def test_the_loads_call_functions_as_they_are() -> None:
    for load in http_suite(Sizes()).loads:
        inspect.signature(resolve(load.work.target)).bind("folder", **load.work.arguments)


def test_the_bodies_are_nodes_as_the_server_takes_them() -> None:
    assert len(read_nodes(write_body(1))) == 1
    assert len(read_nodes(write_body(100))) == 100


@pytest.mark.parametrize("size", range(len(HEAD) + 4))
def test_an_answer_is_whole_with_its_last_byte(size: int) -> None:
    assert not is_whole((HEAD + b"body")[:size])
    assert is_whole(HEAD + b"body")


def test_an_answer_that_is_no_success_ends_the_measurement() -> None:
    with pytest.raises(RefusedError, match="429"):
        is_whole(HEAD.replace(b"201", b"429"))


def test_a_request_says_its_length_and_its_token() -> None:
    request = Target("here", 1, "secret").write("POST", "/v1/nodes", b"{}")
    assert request.startswith(b"POST /v1/nodes HTTP/1.1\r\nhost: here:1\r\nauthorization: Bearer secret\r\n")
    assert request.endswith(b"content-length: 2\r\n\r\n{}")
