"""Conditions as calls: one question, asked once to choose a branch, or until it is true.

The question is one keyword out of eight. What an option of a task would mean for something that never runs (a priority,
a number of retries) is not there to be given.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict, Unpack

import msgspec

from ganger.client.calls import Call
from ganger.client.options import DEFAULT_QUEUE, Options, refuse_strangers
from ganger.core import expression
from ganger.core.errors import BadInput, BadNumber
from ganger.core.span import Span, to_ms
from ganger.core.task import Kind, OnConflict
from ganger.wire.questions import check_path, check_probe
from ganger.wire.specs import (
    AfterDelay,
    AtTime,
    CommandExits,
    ConditionSpec,
    Expression,
    FileThere,
    PortAnswers,
    Probe,
    UrlAnswers,
    decode,
    encode,
)

QUESTIONS: Final = ("file", "gone", "port", "url", "command", "at", "delay", "expression")


class Question(TypedDict, total=False):
    """Exactly one of the first eight.

    `file`, `gone`: an absolute path is there, or is not. `port`: a host and a TCP port that accepts. `url`: a GET is
    answered, with `status` if that is given, else any 2xx. `command`: it exits with 0, within `timeout` and in `cwd`.
    `at`: from this moment on, a datetime with a zone or seconds since 1970. `delay`: so long after its parents.
    `expression`: over the results of its parents. `requires`: labels of the nodes that may ask.
    """

    file: str | Path
    gone: str | Path
    port: tuple[str, int]
    url: str
    command: Sequence[str]
    at: datetime | float
    delay: Span
    expression: str
    status: int
    timeout: Span
    cwd: str | Path
    queue: str
    key: str | None
    on_conflict: str
    description: str | None
    requires: tuple[str, ...]


class Wait(Question, total=False):
    """A question that is asked again. `every`: how often. `deadline`: for so long, counted from its parents' end."""

    every: Span
    deadline: Span


_ONLY_WITH: Final = {"status": "url", "timeout": "command", "cwd": "command"}


def when(**question: Unpack[Question]) -> Call[None]:
    """Ask once: then its `then` children go on, or its `otherwise` children."""
    refuse_strangers(question, Question)
    return _call(question, ConditionSpec(ask(question), wait=False))


def wait_until(**question: Unpack[Wait]) -> Call[None]:
    """Ask until it is true. At the deadline it fails, or its `otherwise` children go on if it has some."""
    refuse_strangers(question, Wait)
    every = to_ms(question.get("every", 1), "every")
    return _call(question, ConditionSpec(ask(question), every=every, deadline=_deadline(question)))


def _deadline(question: Mapping[str, Any]) -> int | None:
    given = question.get("deadline")
    if given is None:
        return None
    deadline = to_ms(given, "deadline")
    if deadline < 0:
        raise BadNumber(f"deadline is {given!r:.40}; give 0 or more", field="deadline")
    return deadline


def _call(question: Mapping[str, Any], spec: ConditionSpec) -> Call[None]:
    options = Options(
        queue=question.get("queue", DEFAULT_QUEUE),
        key=question.get("key"),
        on_conflict=question.get("on_conflict", OnConflict.RETURN),
        description=question.get("description"),
        requires=tuple(question.get("requires", ())),
    )
    return Call(Kind.CONDITION, spec, options, None)


def ask(question: Mapping[str, Any]) -> Probe:
    """The one question among the keywords. BadInput: there is none, or more than one, or it can never be asked."""
    asked = [name for name in QUESTIONS if question.get(name) is not None]
    if len(asked) != 1:
        given = ", ".join(asked) or "none"
        raise BadInput(f"a condition asks one thing: give one of {', '.join(QUESTIONS)}, not {given}")
    for name, owner in _ONLY_WITH.items():
        if name in question and owner not in asked:
            raise BadInput(f"{name} goes with {owner}, not with {asked[0]}", field=name)
    probe = _MAKERS[asked[0]](question)
    if not isinstance(probe, Expression):
        # An expression may name tasks of its graph, which are known by numbers later on.
        check_probe(probe)
    return probe


def _file(question: Mapping[str, Any]) -> Probe:
    return FileThere(_absolute(question["file"], "file"))


def _gone(question: Mapping[str, Any]) -> Probe:
    return FileThere(_absolute(question["gone"], "gone"), gone=True)


def _absolute(path: str | Path, field: str) -> str:
    text = os.fspath(path)
    check_path(text, field)
    return text


def _port(question: Mapping[str, Any]) -> Probe:
    host, port = question["port"]
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65_536:
        raise BadNumber(f"{port!r:.40} is no TCP port; give a host and a number from 1 to 65535", field="port")
    return PortAnswers(str(host), port)


def _url(question: Mapping[str, Any]) -> Probe:
    return UrlAnswers(question["url"], question.get("status"))


def _command(question: Mapping[str, Any]) -> Probe:
    argv = question["command"]
    if isinstance(argv, str) or not argv:
        raise BadInput("a command is a list of a program and its arguments", field="command")
    cwd = None if (folder := question.get("cwd")) is None else _absolute(folder, "cwd")
    return CommandExits([str(part) for part in argv], to_ms(question.get("timeout", 30), "timeout"), cwd)


def _at(question: Mapping[str, Any]) -> Probe:
    at = question["at"]
    if isinstance(at, int | float):
        return AtTime(to_ms(at, "at"))
    if not isinstance(at, datetime):
        raise BadInput(f"at is {at!r:.80}; give a datetime with a time zone, or seconds since 1970", field="at")
    if at.tzinfo is None:
        raise BadInput("at is a datetime without a time zone: say whose clock, as in at.astimezone()", field="at")
    return AtTime(round(at.timestamp() * 1000))


def _delay(question: Mapping[str, Any]) -> Probe:
    return AfterDelay(to_ms(question["delay"], "delay"))


def _expression(question: Mapping[str, Any]) -> Probe:
    return Expression(question["expression"])


_MAKERS: Final[dict[str, Callable[[Mapping[str, Any]], Probe]]] = {
    "file": _file,
    "gone": _gone,
    "port": _port,
    "url": _url,
    "command": _command,
    "at": _at,
    "delay": _delay,
    "expression": _expression,
}


class Asked(NamedTuple):
    """A condition, and the names in its expression that have no ids yet: -n is the n-th task of its graph."""

    spec: ConditionSpec
    names: tuple[tuple[str, int], ...] = ()


def ask_of(spec: ConditionSpec, numbers: Mapping[str, int]) -> Asked:
    """The condition with its expression about tasks of these names. BadInput: it is none, or names others."""
    if not isinstance(spec.probe, Expression):
        return Asked(spec)
    # Any id will do to see whether it is sound.
    expression.check(_number(spec.probe.text, dict.fromkeys(numbers, 1)))
    if all(number > 0 for number in numbers.values()):
        return Asked(number_parents(spec, numbers))
    return Asked(spec, tuple(numbers.items()))


def number_parents(spec: ConditionSpec, numbers: Mapping[str, int]) -> ConditionSpec:
    """The condition with ids in place of the names in its expression."""
    if not isinstance(spec.probe, Expression):
        return spec
    return msgspec.structs.replace(spec, probe=Expression(_number(spec.probe.text, numbers)))


def _number(text: str, numbers: Mapping[str, int]) -> str:
    try:
        return expression.number_parents(text, numbers)
    except RecursionError:
        raise BadInput("the expression is nested too deeply") from None


def fill_in(spec: bytes, names: Mapping[str, int], ids: Sequence[int]) -> bytes:
    """The spec of a condition with ids for its names, now that its graph has them."""
    found: ConditionSpec = decode(spec, ConditionSpec)
    numbers = {name: ids[-number - 1] if number < 0 else number for name, number in names.items()}
    return encode(number_parents(found, numbers))
