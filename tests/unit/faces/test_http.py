"""What the HTTP doors share: problems, routes, grants, rates, parameters."""

from typing import Any

import msgspec
import pytest

from ganger.core import errors
from ganger.core.errors import BadInput, NotAllowed, NotFound, WrongMethod
from ganger.faces.http.grants import Grant, Need, check_scopes
from ganger.faces.http.problem import STATUSES, answer_error, choose_status
from ganger.faces.http.rates import Rates
from ganger.faces.http.reply import Reply
from ganger.faces.http.request import Request, read_query
from ganger.faces.http.routes import Route, Table
from ganger.testing.clock import FakeClock

TREE = sorted(errors.tree(), key=lambda error: error.__name__)


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_every_error_has_a_status_and_a_problem_with_its_code(error: type[errors.GangerError]) -> None:
    reply = answer_error(error("it went wrong", task=7))

    told = msgspec.json.decode(reply.body)
    assert reply.status == told["status"] == choose_status(error("x"))
    assert 400 <= reply.status <= 507
    assert told["code"] == error.code
    assert told["type"] == f"urn:ganger:error:{error.code}"


@pytest.mark.parametrize(
    ("branch", "low", "high"),
    [
        (errors.BadInput, 400, 413),
        (errors.Conflict, 409, 410),
        (errors.TurnedAway, 401, 429),
        (errors.StoreError, 500, 507),
    ],
)
def test_a_branch_stays_among_its_statuses(branch: type[errors.GangerError], low: int, high: int) -> None:
    assert all(low <= choose_status(error("x")) <= high for error in errors.tree(branch))


def test_what_is_broken_inside_is_not_told_outside() -> None:
    reply = answer_error(errors.StoreBroken("the disk of /secret/place failed", path="/secret/place"))

    assert b"secret" not in reply.body
    assert set(STATUSES) <= set(TREE)


async def _endpoint(_: Request) -> Reply:
    return Reply(200)


def _table(*rows: tuple[str, str]) -> Table:
    return Table(Route(method, path, Need.READ, _endpoint, "") for method, path in rows)


def test_a_route_is_found_with_what_its_path_leaves_open() -> None:
    table = _table(("GET", "/a"), ("GET", "/a/{id}"), ("PUT", "/a/{id}/b/{key}"), ("GET", "/a/fixed"))

    assert table.find("GET", b"/a")[0].path == "/a"
    assert table.find("GET", b"/a/7")[1] == {"id": "7"}
    assert table.find("GET", b"/a/fixed")[0].path == "/a/fixed"
    assert table.find("PUT", b"/a/x%2Fy/b/%C3%A4")[1] == {"id": "x/y", "key": "ä"}
    assert table.find("HEAD", b"/a")[0].method == "GET"


@pytest.mark.parametrize("path", [b"/", b"", b"/b", b"/a/", b"/a/7/b", b"//a", b"/a/7/b/k/c", b"/a//b/k"])
def test_what_is_not_in_the_table_is_not_found(path: bytes) -> None:
    with pytest.raises(NotFound):
        _table(("GET", "/a"), ("PUT", "/a/{id}/b/{key}")).find("GET", path)


def test_another_method_is_told_the_right_ones() -> None:
    with pytest.raises(WrongMethod) as caught:
        _table(("GET", "/a"), ("POST", "/a")).find("DELETE", b"/a")

    assert caught.value.fields["allow"] == ["GET", "POST"]
    with pytest.raises(ValueError, match="two routes"):
        _table(("GET", "/a"), ("GET", "/a"))


@pytest.mark.parametrize(
    ("scope", "need", "queue", "allowed"),
    [
        ("admin", Need.SUBMIT, "q", True),
        ("submit", Need.SUBMIT, "q", True),
        ("submit:q", Need.SUBMIT, "q", True),
        ("submit:q", Need.SUBMIT, "p", False),
        ("submit:q", Need.SUBMIT, None, False),
        ("work:q", Need.SUBMIT, "q", False),
        ("read", Need.CANCEL, None, False),
        ("read", Need.READ, None, True),
    ],
)
def test_a_grant_allows_what_its_scopes_say(scope: str, need: Need, queue: str | None, allowed: bool) -> None:
    grant = Grant("1", "n", frozenset({scope}))

    if allowed:
        grant.demand(need, queue)
        assert grant.covers(need)
        return
    with pytest.raises(NotAllowed):
        grant.demand(need, queue)


@pytest.mark.parametrize("scope", ["", "open", "odd", "read:q", "submit:", "submit:a\nb", "ADMIN"])
def test_what_is_no_scope_is_refused(scope: str) -> None:
    with pytest.raises(BadInput):
        check_scopes([scope])
    with pytest.raises(BadInput):
        check_scopes([])


def test_a_rate_is_spent_and_comes_back() -> None:
    clock = FakeClock()
    rates = Rates(clock, 3)
    for _ in range(3):
        assert not rates.is_spent("a")
        rates.spend("a")

    assert rates.is_spent("a")
    assert not rates.is_spent("b")
    clock.advance(1_000)
    assert not rates.is_spent("a")


def test_whoever_takes_too_much_is_told_how_long_to_wait() -> None:
    clock = FakeClock()
    rates = Rates(clock, 2)
    assert [rates.take("a") for _ in range(3)] == [0, 0, 0.5]
    assert rates.take("b") == 0
    clock.advance(500)
    assert [rates.take("a"), rates.take("a")] == [0, 0.5]
    assert [rates.take("slow", 0.1), rates.take("slow", 0.1)] == [0, 10]


def test_a_rate_remembers_so_many_names_and_no_more() -> None:
    rates = Rates(FakeClock(), 1)
    for number in range(5_000):
        rates.spend(str(number))

    assert rates.is_spent("4999")
    assert not rates.is_spent("0")


def test_parameters_are_known_and_given_once() -> None:
    known = frozenset({"a", "b"})

    assert read_query(b"a=1&b=", known) == {"a": "1", "b": ""}
    assert read_query(b"", known) == {}
    wrong: list[Any] = [b"c=1", b"a=1&a=2", b"a=%ff", b"&".join(b"a=1" for _ in range(200))]
    for raw in wrong:
        with pytest.raises(BadInput):
            read_query(raw, known)
