"""Moves: the one place in the store where a status changes, and all that changes with it."""

from typing import Any, Final

from ganger.core.errors import BadInput, Conflict, StaleLease, TaskNotFound, WrongStatus
from ganger.core.event import Entry
from ganger.core.lane import NOBODY, Lane, avoiding
from ganger.core.state import RULES, Move, Rule, Status, Verdict, aim_kick, is_final, judge
from ganger.core.task import SLOTLESS, Attempt, Task
from ganger.engine.store import Datum
from ganger.engine.stores.mongo.exits import show_exit
from ganger.engine.stores.mongo.outputs import show_output
from ganger.engine.stores.mongo.row import UNCLAIMED, DatumRow, NodeRow, Row
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.tables import ATTEMPTS, DATA, datum_key

_CLAIMING: Final = frozenset({"claim", "take"})
_TAKING_BACK: Final = frozenset({"lose", "lose_to_orphan", "lose_to_hold", "lose_killed"})
_TO_QUEUE: Final = frozenset({Status.QUEUED, Status.DELAYED})


async def assess(step: Step, move: Move) -> Verdict:
    """May this move be made now? Beyond the table: a claim has a holder, and what takes no slot is never queued."""
    rule = RULES.get(move.rule)
    if rule is None:
        raise BadInput(f"there is no rule {move.rule!r}", rule=move.rule)
    row = await step.row(move.task)
    if row is None:
        return Verdict.GONE
    verdict = judge(rule, row.task.status, row.task.fence, move.fence, await step.lease_valid(row))
    slotless = row.task.kind in SLOTLESS and rule.target in _TO_QUEUE
    if verdict is Verdict.APPLIED and (rule.name in _CLAIMING or slotless):
        return Verdict.WRONG_STATUS
    return verdict


async def aim(step: Step, move: Move) -> Move:
    """A kicked task goes where it belongs at this instant: it may still wait for others, or not any more."""
    row = await step.row(move.task)
    if row is None:
        return move
    return aim_kick(move, row.task.status, row.task.waits > 0 or row.task.kind in SLOTLESS)


def refuse(move: Move, verdict: Verdict) -> Conflict | TaskNotFound:
    """The error that a refused move is."""
    if verdict is Verdict.GONE:
        return TaskNotFound(f"there is no task {move.task}", task=move.task)
    if verdict is Verdict.STALE:
        return StaleLease(f"the lease of task {move.task} with fence {move.fence} has ended", task=move.task)
    return WrongStatus(f"task {move.task} has a status from which it cannot {move.rule}", task=move.task)


async def apply(step: Step, move: Move) -> Row:
    """Make a move that was judged, and tell it."""
    row = await step.known(move.task)
    rule = RULES[move.rule]
    holder = await step.node(row.task.holder)
    new = advance(step, row, move)
    if rule.ends_attempt(row.task.status):
        _write_attempt(step, row, move, holder)
    if rule.ends_lease:
        if holder is not None and (await step.queue(row.task.queue)).policy.max_active is not None:
            step.watch.freed(row.task.queue, holder.node.name, step.now)
        new = await show_exit(step, await show_output(step, _free(step, new, rule)), move.result)
    new = step.put(_change_lane(step, new, move, holder))
    if move.result is not None:
        await _put_result(step, move)
    if is_final(move.target):
        step.ended.append(move.task)
    entry = Entry(move.task, new.task.status, new.task.fence, move.reason)
    step.tell(rule.fact, new.task.queue, row.task.holder or NO_HOLDER, entry)
    return new


async def _put_result(step: Step, move: Move) -> None:
    await step.draft.load(DATA, [datum_key(move.task, "result")])
    result = move.result or b""
    step.draft.put(DATA, DatumRow(move.task, Datum("result", result, None, len(result))))


def advance(step: Step, row: Row, move: Move) -> Row:
    """The row behind the move: its status, its counters, and what the move says."""
    rule = RULES[move.rule]
    fields = _said(step, row.task, move)
    fields |= {counter.value: getattr(row.task, counter.value) + 1 for counter in rule.adds}
    if move.crashed:
        fields["crashes"] = row.task.crashes + 1
    if rule.name == "start":
        fields["started"] = step.wall
    if is_final(move.target):
        fields["ended"] = step.wall
    return row.having(status=int(move.target), modified=step.wall, **fields)


def _said(step: Step, task: Task, move: Move) -> dict[str, Any]:
    branch = move.branch if move.rule == "conclude" else None
    said = {"due": _due_of(step, task, move), "priority": move.priority, "reason": move.reason, "branch": branch}
    return {name: value for name, value in said.items() if value is not None}


def _due_of(step: Step, task: Task, move: Move) -> int | None:
    if move.due is None and move.target == Status.DELAYED and task.due is None:
        return step.wall
    return move.due


def _write_attempt(step: Step, row: Row, move: Move, holder: NodeRow | None) -> None:
    task = row.task
    name = str(row.node) if holder is None else holder.node.name
    attempt = Attempt(
        task.id, task.fence, name, row.claimed or step.wall, task.started, step.wall, move.rule, move.target,
        move.reason,
    )  # fmt: skip
    step.draft.put(ATTEMPTS, attempt._replace(code=int(move.target)))


def _free(step: Step, row: Row, rule: Rule) -> Row:
    """The row without its lease; one that was taken back raises the fence, so that the old one is dead."""
    step.wake_queue(row.task.queue)
    final = is_final(row.task.status)
    raised = 1 if rule.name in _TAKING_BACK else 0
    started = row.task.started if final else None
    freed = row.having(fence=row.task.fence + raised, holder=None, until=None, kill=False, started=started)
    return freed if final else freed._replace(node=UNCLAIMED)


def _change_lane(step: Step, row: Row, move: Move, holder: NodeRow | None) -> Row:
    """A task that avoids its last holder waits in a lane of its own; one that nobody may take avoids nobody."""
    plain = Lane(row.task.kind, row.task.requires)
    if move.target not in _TO_QUEUE:
        return row._replace(lane=plain).having(avoid=None)
    if move.avoid <= 0 or holder is None:
        return row
    identity = holder.node.identity or NOBODY
    return row._replace(lane=avoiding(plain, identity, step.wall + move.avoid)).having(avoid=identity)
