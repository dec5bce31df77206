"""A spec becomes an order, and an end becomes an outcome, by the table."""

from pathlib import Path

import pytest

from ganger.core.errors import BadInput
from ganger.core.outcome import Crashed, Fail, Killed, Outcome, Release, Succeed
from ganger.node.executors.command import Home, make_order
from ganger.node.guardian.messages import Caps, End
from ganger.node.guardian.run import judge
from ganger.wire.specs import Limits
from tests.unit.node.guarded import assign, command, shell

HOME = Home({"PATH": "/bin", "LANG": "C"}, Path("/home"))


def test_an_order_has_all_that_the_guardian_needs() -> None:
    limits = Limits(cpu=1, memory=2, files=3, output=4)
    spec = command("a", "b", env={"LANG": "de", "X": "y"}, stdin="ü", merge=True, limits=limits, grace=7)
    assignment = assign(22, spec, fence=3, timeout=99)
    order = make_order(assignment, HOME)
    assert order.key == (22, 3)
    assert order.argv == ["a", "b"]
    assert order.environment == {"PATH": "/bin", "LANG": "de", "X": "y", "GANGER_TASK": "22", "GANGER_FENCE": "3"}
    assert (order.cwd, order.stdin, order.merge) == ("/home", "ü".encode(), True)
    assert order.caps == Caps(1, 2, 3, 4)
    assert (order.grace, order.timeout, order.trusted_until) == (7, 99, assignment.trusted_until)


def test_a_task_cannot_pretend_to_be_another() -> None:
    order = make_order(assign(22, command("a", env={"GANGER_TASK": "1", "GANGER_MARK": "x"})), HOME)
    assert order.environment["GANGER_TASK"] == "22"


def test_a_script_is_an_argument_unless_it_is_too_long_for_one() -> None:
    assert make_order(assign(1, shell("echo $0")), HOME).argv == ["bash", "-c", "echo $0"]
    long = make_order(assign(1, shell("#" * 200_000)), HOME)
    assert (long.argv, long.script) == (["bash", "/dev/fd/3"], b"#" * 200_000)


@pytest.mark.parametrize(
    "spec",
    [
        command("a\0"),
        command("a", cwd="/\0"),
        command("a", env={"": "x"}),
        command("a", env={"A=": "x"}),
        command("a", env={"A": "\0"}),
        command("a", limits=Limits(memory=-1)),
        command("a", limits=Limits(output=1 << 63)),
    ],
)
def test_what_no_system_could_start_is_bad_input(spec: object) -> None:
    with pytest.raises(BadInput):
        make_order(assign(1, spec), HOME)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (End(1, 1, "exit", code=0), Succeed(b"0")),
        (End(1, 1, "exit", code=1), Fail(2, "it exited with code 1")),
        (End(1, 1, "exit", signal=11), Fail(139, "it was killed by SIGSEGV")),
        (End(1, 1, "limit", "too much", signal=9), Fail(2, "too much")),
        (End(1, 1, "timeout", "too long", code=0), Fail(124, "too long")),
        (End(1, 1, "program", "not there", code=127), Fail(127, "not there")),
        (End(1, 1, "program", "no folder"), Fail(2, "no folder")),
        (End(1, 1, "stop", "asked", code=0), Killed("asked")),
        (End(1, 1, "trust", "late", signal=9), Release()),
        (End(1, 1, "shutdown", "closed", signal=15), Release()),
        (End(1, 1, "machine", "full"), Release(1000)),
        (End(1, 1, "lost", "gone"), Crashed("gone")),
        (End(1, 1, "something of a later version"), Fail(2, "it ended: something of a later version")),
    ],
)
def test_every_end_has_its_outcome(end: End, outcome: Outcome) -> None:
    assert judge(end) == outcome
