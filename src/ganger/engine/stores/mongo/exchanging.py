"""Exchange: notes, moves, what follows from them, and then a claim."""

from ganger.core.state import Status, Verdict
from ganger.engine.store import Exchange, Exchanged
from ganger.engine.stores.mongo import cascade
from ganger.engine.stores.mongo.birth import become
from ganger.engine.stores.mongo.claiming import claim
from ganger.engine.stores.mongo.exits import load_exits
from ganger.engine.stores.mongo.moving import aim, apply, assess, refuse
from ganger.engine.stores.mongo.noting import write
from ganger.engine.stores.mongo.step import Step


async def exchange(step: Step, request: Exchange) -> Exchanged:
    await step.load(move.task for move in request.moves)
    await load_exits(step, [move.task for move in request.moves])
    await write(step, request.notes)
    refused = await _move_all(step, request)
    for index, move in enumerate(request.moves):
        if move.rule == "succeed" and index not in refused:
            await become(step, move.task)
    await cascade.follow(step)
    await step.settle_limits()
    await step.audit(request.act)
    verdicts = [(index, verdict.value) for index, verdict in refused.items()]
    if request.claim is None:
        return Exchanged(verdicts, [])
    return (await claim(step, request.claim))._replace(refused=verdicts)


async def _move_all(step: Step, request: Exchange) -> dict[int, Verdict]:
    refused: dict[int, Verdict] = {}
    for index, asked in enumerate(request.moves):
        move = await aim(step, asked)
        verdict = await assess(step, move)
        if verdict is not Verdict.APPLIED:
            if request.all_or_nothing:
                raise refuse(move, verdict)
            refused[index] = verdict
        elif (await apply(step, move)).task.status == Status.BLOCKED:
            await cascade.decide(step, move.task, None)
    return refused
