"""What else can be asked: why a task waits, and who takes tasks."""

from collections import Counter
from typing import Any

from ganger.core.node import Node, Vitals
from ganger.core.queue import Counts
from ganger.core.state import is_todo
from ganger.engine.nodes import InHand
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend
from ganger.wire.v1.words import name_phase, name_state, read_id


class Reports:
    """The endpoints that only tell."""

    def __init__(self, backend: Backend) -> None:
        self._engine = backend.engine

    async def why(self, request: Request) -> Answer:
        """Everything that keeps a task where it is."""
        task = read_id(request.values["id"])
        why = await self._engine.explain(task)
        reasons = [{"code": one.code, "sentence": one.sentence, "fields": dict(one.fields)} for one in why.reasons]
        return answer_json({"id": str(task), "phase": why.status, "reasons": reasons})

    async def workers(self, request: Request) -> Answer:
        """Every node that takes tasks, or did a while ago."""
        nodes = await self._engine.nodes.all()
        in_hand = await self._engine.nodes.in_hand([node for node in nodes if node.here])
        return answer_json([_tell_worker(node, in_hand.get(node.id, InHand())) for node in nodes])


def count_states(counts: Counts) -> dict[str, Any]:
    """How many tasks of a queue have each state, and each phase of it."""
    states, phases = Counter[str](), Counter[str]()
    for code, number in counts.by_status.items():
        states[name_state(code)] += number
        phases[name_phase(code)] += number
    todo = sum(number for code, number in counts.by_status.items() if is_todo(code))
    return {"total": counts.total, "todo": todo, "states": states, "phases": phases}


def _tell_worker(node: Node, has: InHand) -> dict[str, Any]:
    vitals = node.vitals if node.here else None
    return {
        "id": str(node.id),
        "name": node.name,
        "state": node.state,
        "slots": node.slots if vitals is None else vitals.slots,
        "queues": node.queues,
        "kinds": node.kinds,
        "labels": node.labels,
        "since": node.since,
        "seen": node.seen,
        **has._asdict(),
        "vitals": None if vitals is None else _tell_vitals(vitals),
    }


def _tell_vitals(vitals: Vitals) -> dict[str, Any]:
    return {field: value for field, value in vitals._asdict().items() if field != "slots"}
