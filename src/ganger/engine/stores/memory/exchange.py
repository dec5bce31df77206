"""Exchange: moves, what follows from them, and then a claim."""

from ganger.core.state import Status, Verdict
from ganger.engine.store import Exchange, Exchanged
from ganger.engine.stores.memory import graph
from ganger.engine.stores.memory.birth import become
from ganger.engine.stores.memory.claim import claim
from ganger.engine.stores.memory.moves import aim, apply, assess, refuse
from ganger.engine.stores.memory.notes import write
from ganger.engine.stores.memory.step import Step


def exchange(step: Step, request: Exchange) -> Exchanged:
    write(step, request.notes)
    refused = _move_all(step, request)
    for index, move in enumerate(request.moves):
        if move.rule == "succeed" and index not in refused:
            become(step, move.task)
    graph.follow(step)
    step.settle_limits()
    step.audit(request.act)
    verdicts = [(index, verdict.value) for index, verdict in refused.items()]
    if request.claim is None:
        return Exchanged(verdicts, [])
    return claim(step, request.claim)._replace(refused=verdicts)


def _move_all(step: Step, request: Exchange) -> dict[int, Verdict]:
    refused: dict[int, Verdict] = {}
    for index, asked in enumerate(request.moves):
        move = aim(step, asked)
        verdict = assess(step, move)
        if verdict is not Verdict.APPLIED:
            if request.all_or_nothing:
                raise refuse(move, verdict)
            refused[index] = verdict
        elif apply(step, move).task.status == Status.BLOCKED:
            graph.decide(step, move.task, None)
    return refused
