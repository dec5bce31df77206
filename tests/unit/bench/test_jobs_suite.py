"""The suite of jobs is whole, and its workers write frames as the server reads them."""

from __future__ import annotations

import inspect

from bench.jobs.crew import write_frame
from bench.suites.jobs import Sizes, jobs_suite
from bench.work import resolve
from ganger.wire.websocket.frames import Decoder, Opcode, Piece


def test_every_goal_stands_on_figures_of_the_suite() -> None:
    suite = jobs_suite(Sizes())
    keys = {figure.key for load in suite.loads for figure in load.figures}
    assert {key for goal in suite.goals for key in (goal.ours, goal.beside) if key is not None} <= keys
    assert {goal.number for goal in suite.goals} == {9}


def test_the_loads_call_functions_as_they_are() -> None:
    for load in jobs_suite(Sizes()).loads:
        inspect.signature(resolve(load.work.target)).bind("folder", **load.work.arguments)


def test_a_frame_is_read_as_it_was_written() -> None:
    for size in (0, 5, 125, 126, 70_000):
        found = Decoder(1 << 20).feed(write_frame(Opcode.BINARY, b"x" * size))
        assert found == [Piece(Opcode.BINARY, b"x" * size, True)]
