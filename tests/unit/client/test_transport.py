"""Graphs that hand on results are stored behind a gate: all of them runs, or nothing."""

from collections.abc import Sequence
from typing import Any

import pytest

from ganger import Ganger, Status
from ganger.assembly.client import EngineTransport
from ganger.client import Graph, Transport
from ganger.client.references import encode, fill_in
from ganger.core.errors import BadInput, StoreUnavailable, WrongStatus
from ganger.engine.store import Edit
from ganger.testing.inline import inline
from ganger.wire.specs import FunctionSpec, decode
from tests.unit.client.shop import add, app, total


def _engine(transport: Transport) -> Any:
    assert isinstance(transport, EngineTransport)
    return transport.engine


def _chain(app: Ganger) -> Graph:
    graph = app.graph()
    first = graph.task(add, 1)
    graph.task(total, [first.result, {"deep": [first.result]}])
    return graph


def _statuses(app: Ganger, ids: Sequence[int]) -> list[int]:
    return [app.handle(task).task().status for task in ids]


def _spec(app: Ganger, task: int) -> FunctionSpec:
    async def read(transport: Transport) -> bytes:
        return (await _engine(transport).read_data(task, "spec")).body  # type: ignore[no-any-return]

    found: FunctionSpec = decode(app.bridge.run(read), FunctionSpec)
    return found


def test_ids_are_put_in_the_place_of_numbers() -> None:
    with Ganger("memory:", upkeep=False) as app:
        app.command(["true"])
        graph = _chain(app)
        graph.submit()

        assert graph.ids == [2, 3]
        assert _spec(app, 3).args == [[{"$task": 2}, {"deep": [{"$task": 2}]}]]
        assert _statuses(app, graph.ids) == [Status.QUEUED, Status.BLOCKED]


@pytest.mark.parametrize("error", [StoreUnavailable("not now"), WrongStatus("moved")])
def test_a_graph_whose_gate_cannot_be_opened_never_runs(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(edits: Sequence[Edit], *, by: str) -> None:
        assert edits
        assert by == "client"
        raise error

    async def plant(transport: Transport) -> None:
        monkeypatch.setattr(_engine(transport), "edit", fail)

    with Ganger("memory:", upkeep=False) as app:
        app.bridge.run(plant)
        with pytest.raises(type(error)):
            _chain(app).submit()

        assert _statuses(app, [1, 2, 3]) == [Status.CANCELLED] * 3


def test_a_group_of_groups_ends_with_all_of_them() -> None:
    with inline(app):
        with app.graph() as graph:
            first, second = graph.group([graph.task(add, 1)]), graph.group([graph.task(add, 2)])
            whole = graph.group([first, second])
            last = graph.task(add, 3, after=whole)

        assert last.handle.result(60) == 4
        assert whole.handle.status is Status.SUCCEEDED


def test_a_task_is_in_one_group_alone() -> None:
    graph = Ganger("memory:").graph()
    task = graph.task(add, 1)
    graph.group([task])

    with pytest.raises(BadInput, match="in a group already"):
        graph.group([task])
    with pytest.raises(BadInput, match="its own graph"):
        Ganger("memory:").graph().group([task])


def test_an_any_join_cannot_pass_the_gate() -> None:
    with Ganger("memory:", upkeep=False) as app:
        outside = app.command(["true"])
        graph = _chain(app)
        graph.task(add, 1, after=outside, join="any")

        with pytest.raises(BadInput, match="a join of any"):
            graph.submit()


def test_a_submitted_graph_is_sealed() -> None:
    with Ganger("memory:", upkeep=False) as app:
        graph = _chain(app)
        graph.submit()

        with pytest.raises(BadInput, match="has been submitted"):
            graph.task(add, 1)
        with pytest.raises(BadInput, match="has been submitted"):
            graph.submit()


def test_only_numbers_of_the_submission_are_replaced() -> None:
    spec = encode(
        FunctionSpec("m:f", [{"$task": -1}, {"$task": -9}, {"$task": 5}, {"$task": -1, "x": 1}, "$task"])
    ).spec

    assert decode(fill_in(spec, [40]), FunctionSpec).args == [
        {"$task": 40}, {"$task": -9}, {"$task": 5}, {"$task": -1, "x": 1}, "$task",
    ]  # fmt: skip
