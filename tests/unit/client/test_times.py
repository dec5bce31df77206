"""Times in the SDK: a number is seconds, wherever one is given."""

import inspect
import typing
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import ganger
import ganger.client
from ganger.client.backoff import Delays, Exponential, Fixed
from ganger.client.calls import command, draft
from ganger.client.conditions import Wait
from ganger.client.groups import Group
from ganger.client.options import CommandWishes, Wishes
from ganger.client.outbox import Relay
from ganger.client.schedules import FunctionTiming
from ganger.core import retry
from ganger.core.errors import BadNumber
from ganger.core.span import Span, to_ms, to_seconds
from ganger.testing.inline import Inline, assert_scheduled

TIMES = frozenset({
    "timeout", "delay", "delays", "every", "interval", "grace", "deadline", "first", "pause", "span",
})  # fmt: skip
"""Names that parameters of the SDK have for lengths of time. `most` is one of a backoff, and a number elsewhere."""

TIMEFUL: tuple[Any, ...] = (
    *(getattr(ganger, name) for name in ganger.__all__ if name not in {"__version__", "open_engine"}),
    *(getattr(ganger.client, name) for name in ganger.client.__all__ if name not in {"Transport", "Draft", "Plan"}),
    Group, Relay, Inline, assert_scheduled,
)  # fmt: skip
"""Everything that a user of the SDK calls. Transport, Draft and Plan are between it and the engine."""


def _callables(one: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if not inspect.isclass(one):
        yield one.__qualname__, one
        return
    for name, member in inspect.getmembers(one):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            yield f"{one.__qualname__}.{name}", member


def _times() -> Iterator[tuple[str, str, Any]]:
    for one in TIMEFUL:
        for where, member in _callables(one):
            if (member.__module__ or "").startswith("ganger"):
                hints = typing.get_type_hints(member)
                yield from ((where, name, hint) for name, hint in hints.items() if name in TIMES)
    for keywords in (Wishes, CommandWishes, Wait, FunctionTiming):
        hints = typing.get_type_hints(keywords)
        yield from ((keywords.__name__, name, hint) for name, hint in hints.items() if name in TIMES)


def test_every_time_in_every_signature_is_a_span() -> None:
    found = list(_times())
    spans = {Span, Span | None, typing.get_type_hints(Delays)["delays"]}

    wrong = [(where, name, hint) for where, name, hint in found if hint not in spans]

    assert wrong == []
    assert {"Handle.result", "App.every", "Retry.__init__", "Fixed", "Wishes", "Wait"} <= {
        where for where, _, _ in found
    }


@pytest.mark.parametrize("span", [90, 90.0, timedelta(seconds=90), "90s", "1m30s", "90"])
def test_a_number_is_seconds_and_a_text_has_its_units(span: Span) -> None:
    assert to_ms(span, "timeout") == 90_000


@pytest.mark.parametrize(
    "span", [True, None, b"5m", "five minutes", "", "-5s", float("nan"), float("inf"), 1 << 60, [5]]
)
def test_what_is_no_time_is_refused_by_name(span: Any) -> None:
    with pytest.raises(BadNumber, match="timeout"):
        to_ms(span, "timeout")


def test_how_long_to_wait_may_be_for_ever() -> None:
    assert to_seconds(None, "timeout") is None
    assert to_seconds(float("inf"), "timeout") is None
    assert to_seconds("250ms", "timeout") == 0.25


def test_a_timeout_of_five_is_five_seconds() -> None:
    task = draft(command(["true"], timeout=5, delay=0.5, grace="2s")).task

    assert (task.timeout, task.delay) == (5_000, 500)
    assert b'"grace":2000' in task.spec


def test_backoffs_are_in_seconds_too() -> None:
    assert Fixed(5) == retry.Fixed(5_000)
    assert Exponential() == retry.Exponential()
    assert Exponential(first="100ms", most=timedelta(minutes=1)) == retry.Exponential(100, 2.0, 60_000)
    assert Delays([1, "5s", timedelta(minutes=1)]) == retry.Delays((1_000, 5_000, 60_000))
