"""The small parts around a warm process."""

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest

from ganger.core.errors import BadInput
from ganger.node.functions import context
from ganger.node.functions.binding import Allowed, find
from ganger.node.functions.capture import ContextCapture
from ganger.node.functions.charge import Charge
from ganger.node.functions.messages import (
    CHILD_DECODER,
    ENCODER,
    LENGTH,
    NODE_DECODER,
    BadFrame,
    Begin,
    Done,
    FromChild,
    How,
    Job,
    Result,
    Said,
    Splitter,
    frame,
)
from ganger.node.functions.outbox import Outbox, make_memory
from ganger.node.functions.porter import Line, Porter
from ganger.node.functions.references import has_references, resolve
from ganger.node.functions.track import Place
from ganger.testing.clock import FakeClock
from ganger.wire.arguments import convert_arguments
from ganger.wire.specs import FunctionSpec, decode, encode


def test_frames_are_cut_wherever_the_bytes_were() -> None:
    whole = frame(Begin([Job(1, 2, 3, 4, b"x" * 50)])) + frame(Begin([]))
    splitter = Splitter()
    found = [body for at in range(len(whole)) for body in splitter.feed(whole[at : at + 1])]

    assert [CHILD_DECODER.decode(body) for body in found] == [Begin([Job(1, 2, 3, 4, b"x" * 50)]), Begin([])]


def test_a_frame_of_absurd_length_is_refused() -> None:
    with pytest.raises(BadFrame):
        list(Splitter().feed(b"\xff\xff\xff\xff"))


def outboxes() -> tuple[Outbox, Outbox]:
    fd = make_memory()
    both = Outbox(fd), Outbox(fd)
    os.close(fd)
    return both


def test_an_outbox_is_the_frame_that_is_sent() -> None:
    ours, theirs = outboxes()
    results: list[int | Result] = [Result(number, How.SUCCEEDED, b"1") for number in range(1, 300)]
    for result in results:
        assert ours.add(ENCODER.encode(result))
    sent = bytes(ours.frame())

    assert LENGTH.unpack_from(sent)[0] == len(sent) - LENGTH.size
    assert NODE_DECODER.decode(sent[LENGTH.size :]) == Done(results)
    assert theirs.leftover() == results
    ours.clear()
    assert theirs.leftover() == []


def test_a_number_alone_tells_of_a_job_that_succeeded_and_said_nothing() -> None:
    ours, theirs = outboxes()
    told: list[int | Result] = [7, Result(8, How.FAILED, b"why"), 1 << 40]
    for one in told:
        assert ours.add(ENCODER.encode(one))

    assert NODE_DECODER.decode(bytes(ours.frame())[LENGTH.size :]) == Done(told)
    assert theirs.leftover() == told


def test_an_outbox_that_is_full_says_so_and_keeps_what_it_has() -> None:
    ours, theirs = outboxes()
    piece = ENCODER.encode(Result(1, How.SUCCEEDED, b"x" * 400_000))
    added = [ours.add(piece) for _ in range(4)]

    assert added == [True, True, False, False]
    assert len(theirs.leftover()) == 2


def test_what_is_given_soon_after_a_sending_waits_for_the_next(tmp_path: Path) -> None:
    clock, outbox = FakeClock(), outboxes()[0]
    (node_jobs, jobs), (results, node_results) = socket.socketpair(), socket.socketpair()
    porter = Porter(Line(jobs, results), outbox, clock, 1, ContextCapture(Place(str(tmp_path), 1)))
    thread = threading.Thread(target=porter._carry_until_the_end)
    with node_jobs, jobs, results, node_results, node_results.makefile("rb") as stream:

        def hear() -> FromChild:
            (length,) = LENGTH.unpack(stream.read(LENGTH.size))
            said: FromChild = NODE_DECODER.decode(stream.read(length))
            return said

        thread.start()
        for number in (1, 2, 3):
            porter.give(ENCODER.encode(number))
        assert hear() == Done([1])
        # Each saying wakes the porter; when the second is there it has looked at the outbox after the first.
        for percent in (1.0, 2.0):
            porter.say(9, percent, None)
            assert hear() == Said([(9, percent, None)])
        clock.advance(3)
        assert hear() == Done([2, 3])
        node_jobs.close()
        thread.join()


def test_a_charge_survives_the_command_line() -> None:
    charge = Charge(1, 2, "/a note", "/spool", 3, "info", "", "mine.*\nours.do", 8, 4, 5, 6, 7)

    assert Charge.read(charge.words()) == charge


def test_conversion_leaves_alone_what_json_has() -> None:
    target = find("tests.unit.node.chores:add", Allowed(("tests.*",)))

    assert not target.parameters.by_name
    assert convert_arguments(target.parameters, [1], {"second": 2}) == ([1], {"second": 2})


@pytest.mark.parametrize("path", ["", "os", ":name", "os:", "os:nothing", "os:sep"])
def test_a_path_that_leads_nowhere_says_why(path: str) -> None:
    with pytest.raises(BadInput):
        find(path, Allowed(("os.*",)))


def test_a_function_without_a_signature_is_called_as_it_is() -> None:
    assert find("builtins:max", Allowed(("builtins.max",))).call(1, 2) == 2


def test_there_is_no_context_outside_of_a_task() -> None:
    with pytest.raises(RuntimeError, match="no task is executed here"):
        context.cancelled()


def test_references_are_found_anywhere_and_nothing_else_is_touched() -> None:
    spec = FunctionSpec("m:f", [{"deep": [{"$task": 3}]}, {"$task": 4, "more": 1}], {"key": {"$task": 3}})

    async def read(task: int) -> bytes:
        return b'{"of": %d}' % task

    found = decode(asyncio.run(resolve(encode(spec), read)), FunctionSpec)
    assert found.args == [{"deep": [{"of": 3}]}, {"$task": 4, "more": 1}]
    assert found.kwargs == {"key": {"of": 3}}


def test_a_spec_without_references_is_not_looked_into() -> None:
    assert not has_references(encode(FunctionSpec("m:f", ["$task"[1:]])))
    assert has_references(encode(FunctionSpec("m:f", [{"$task": 1}])))


def test_a_reference_to_what_is_not_json_is_refused(tmp_path: Path) -> None:
    async def read(task: int) -> bytes:
        return b"not json"

    with pytest.raises(BadInput, match="is not JSON"):
        asyncio.run(resolve(encode(FunctionSpec("m:f", [{"$task": 1}])), read))
