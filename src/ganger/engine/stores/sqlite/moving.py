"""How moves are applied: read what they are about, judge each, write those alike together, then follow what ended."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import apsw

from ganger.core.errors import GangerError, TaskNotFound, WrongStatus
from ganger.core.lane import avoiding
from ganger.core.state import LEASED, RULES, Counter, Move, Rule, Status, Verdict, is_final, judge
from ganger.core.task import SLOTLESS, Kind, NewTask
from ganger.engine.stores.sqlite.cascade import Cascade, Ended
from ganger.engine.stores.sqlite.guard import lease_valid, stale
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step
from ganger.engine.stores.sqlite.submitting import Births, take_ids

COUNTED: Final = tuple(counter for counter in Counter if counter is not Counter.RESERVES)
_LOSSES: Final = frozenset(name for name in RULES if name.startswith("lose"))


class Row(NamedTuple):
    """What a move needs to know of its task."""

    id: int
    queue: int
    lane: int
    status: int
    fence: int
    holder: int | None
    until: int | None
    kids: int
    grp: int | None
    limit_key: str | None
    priority: int
    waits: int
    due: int | None
    started: int | None


class Shape(NamedTuple):
    """What moves have in common that one statement can apply."""

    rule: str
    target: int
    due: int | None
    priority: int | None
    reason: str | None
    crashed: bool
    branch: bool
    lane: int | None
    identity: int


def apply(step: Step, moves: Sequence[Move]) -> list[tuple[int, str]]:
    """Apply each move that may be made; the indexes and verdicts of the others."""
    refused: list[tuple[int, str]] = []
    cascade = Cascade(step)
    for span in _spans(moves):
        step.cut_facts()
        refused += _apply_span(step, moves, span, cascade)
    refill(step)
    if cascade.ended:
        # What follows is told behind the moves that it follows from.
        step.cut_facts()
        cascade.run()
    return refused


def refusal(move: Move, verdict: str) -> GangerError:
    """A refused move as the error that a caller of an all-or-nothing step gets."""
    if verdict == Verdict.STALE:
        return stale(move.task, move.fence)
    if verdict == Verdict.GONE:
        return TaskNotFound(f"there is no task {move.task}", task=move.task)
    return WrongStatus(f"task {move.task} is not where {move.rule} starts", task=move.task, rule=move.rule)


def _spans(moves: Sequence[Move]) -> Iterable[range]:
    """Cut where a task comes a second time: its second move must see what the first one did."""
    start, seen = 0, set[int]()
    for index, move in enumerate(moves):
        if move.task in seen:
            yield range(start, index)
            start, seen = index, set[int]()
        seen.add(move.task)
    if moves:
        yield range(start, len(moves))


def _apply_span(step: Step, moves: Sequence[Move], span: range, cascade: Cascade) -> list[tuple[int, str]]:
    ids = array("q", [moves[index].task for index in span])
    rows = {row[0]: Row._make(row) for row in step.run(Q.moves_read, (apsw.carray(ids),))}
    allowed: list[tuple[Move, Row]] = []
    refused: list[tuple[int, str]] = []
    for index in span:
        row = rows.get(moves[index].task)
        move = _kicked(step, moves[index], row)
        verdict = _judge(step, move, row)
        if row is not None and verdict is Verdict.APPLIED:
            allowed.append((move, row))
        else:
            refused.append((index, verdict.value))
    _write(step, allowed, cascade)
    return refused


def _kicked(step: Step, move: Move, row: Row | None) -> Move:
    """A kicked task goes where it belongs at this instant: it may still wait for its parents, or not any more."""
    if row is None or row.status != Status.HELD or move.rule not in ("kick", "kick_to_block"):
        return move
    blocked = row.waits > 0 or step.shelf.lanes[row.lane].kind in SLOTLESS
    rule = RULES["kick_to_block" if blocked else "kick"]
    return move._replace(rule=rule.name, target=rule.target)


def _judge(step: Step, move: Move, row: Row | None) -> Verdict:
    if row is None:
        return Verdict.GONE
    rule = RULES[move.rule]
    if rule.target in LEASED and not rule.by_holder:
        # A lease is given by a claim alone, which knows to whom.
        return Verdict.WRONG_STATUS
    good = not rule.by_holder or lease_valid(step, row.holder, row.until)
    return judge(rule, row.status, row.fence, move.fence, good)


def _write(step: Step, allowed: list[tuple[Move, Row]], cascade: Cascade) -> None:
    identities: dict[int | None, int] = {}
    alike: dict[Shape, list[Row]] = {}
    for move, row in allowed:
        alike.setdefault(_shape(step, move, row, identities), []).append(row)
    _keep_results(step, [move for move, _ in allowed])
    for shape, rows in alike.items():
        _write_alike(step, shape, rows)
        _tell(step, shape, rows)
        if is_final(shape.target):
            _end(step, shape, rows, cascade)
        elif shape.target == Status.BLOCKED:
            # A group whose last member ended while it was held has nothing left to wait for.
            cascade.end_groups([row.id for row in rows if step.shelf.lanes[row.lane].kind == Kind.GROUP])


def _shape(step: Step, move: Move, row: Row, identities: dict[int | None, int]) -> Shape:
    if (identity := identities.get(row.holder)) is None:
        identity = identities[row.holder] = _identity(step, row.holder)
    lane = None
    if move.avoid and identity:
        lane = step.lane(avoiding(step.shelf.lanes[row.lane], identity, step.wall + move.avoid))
    elif row.lane < 0 and move.target not in (Status.QUEUED, Status.DELAYED):
        lane = step.shelf.plain_lane(step.session, row.lane)
    _, rule, target, _, due, priority, reason, _, _, crashed, branch = move
    return Shape(rule, target, due, priority, reason, crashed, branch, lane, identity)


def _identity(step: Step, holder: int | None) -> int:
    """Who held it, also when its registration has ended."""
    if (node := step.node(holder)) is not None:
        return node.identity
    if holder is None:
        return 0
    return next((int(row[0]) for row in step.run(Q.node_identity, (holder,))), 0)


def _write_alike(step: Step, shape: Shape, rows: list[Row]) -> None:
    rule, ids = RULES[shape.rule], apsw.carray(array("q", [row.id for row in rows]))
    if rule.ends_lease:
        outcome = (shape.identity, step.wall, shape.rule, shape.target, shape.reason, ids)
        step.run(Q.attempts_end, outcome)
    if shape.rule == "succeed" and shape.reason is None and shape.branch and all(row.until is None for row in rows):
        step.run(Q.moves_succeed, (step.wall, ids))
        # Apart from the rest: the index of those to be killed has few entries, and the others need not touch it.
        step.run(Q.kill_clear, (ids,))
    elif shape.rule == "start":
        step.run(Q.moves_start, (step.wall, ids))
    else:
        step.run(Q.moves_apply, _bindings(step, shape, rule, ids))


def _bindings(step: Step, shape: Shape, rule: Rule, ids: object) -> dict[str, object]:
    counts: dict[str, object] = {counter.value: int(counter in rule.adds) for counter in COUNTED}
    if shape.crashed:
        counts["crashes"] = 1
    return counts | {
        "status": shape.target, "lane": shape.lane, "priority": shape.priority, "due": shape.due,
        "fence": int(shape.rule in _LOSSES), "final": is_final(shape.target), "wall": step.wall,
        "reason": shape.reason, "branch": shape.branch, "ids": ids,
    }  # fmt: skip


def _tell(step: Step, shape: Shape, rows: list[Row]) -> None:
    rule, target, reason = RULES[shape.rule], shape.target, shape.reason
    raised = int(shape.rule in _LOSSES)
    for (queue, holder), alike in _by_queue_and_holder(rows):
        step.tell(rule.fact, queue, holder or 0, [(row.id, target, row.fence + raised, reason) for row in alike])
        step.count(queue, target, len(alike))
        for row in alike:
            step.count(queue, row.status, -1)
        _free(step, shape, queue, alike)


def _by_queue_and_holder(rows: list[Row]) -> Iterable[tuple[tuple[int, int | None], list[Row]]]:
    """Rows of one queue and holder together, in the order in which they come."""
    found: dict[tuple[int, int | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row.queue, row.holder), []).append(row)
    return found.items()


def _free(step: Step, shape: Shape, queue: int, rows: list[Row]) -> None:
    """What else changes when these tasks move: keys to look at again, lanes that have a task, room under a limit."""
    step.keys.update((queue, row.limit_key) for row in rows if row.limit_key is not None)
    if shape.target in (Status.QUEUED, Status.DELAYED):
        for lane in {row.lane for row in rows} if shape.lane is None else {shape.lane}:
            step.readied(queue, lane)
    elif RULES[shape.rule].ends_lease:
        step.freed.add(queue)


def _keep_results(step: Step, moves: list[Move]) -> None:
    results = [(move.task, "result", move.result, None, len(move.result)) for move in moves if move.result is not None]
    if results:
        step.run_many(Q.data_put, results)


def _end(step: Step, shape: Shape, rows: list[Row], cascade: Cascade) -> None:
    cascade.ended += [
        Ended(row.id, shape.target, shape.branch, shape.reason, row.kids, row.grp)
        for row in rows
        if row.kids or row.grp is not None
    ]
    if shape.rule == "succeed":
        for queue, alike in groupby(rows, key=lambda row: row.queue):
            becomes = step.shelf.queues[queue].queue.policy.becomes
            if becomes is not None and becomes in step.shelf.queues:
                _become(step, becomes, [row.id for row in alike])


def _become(step: Step, queue: int, ids: list[int]) -> None:
    """Each result is a new task of the other queue: small ones are copied, large ones are the same blob."""
    rows = list(step.run(Q.inherit_read, (apsw.carray(array("q", ids)),)))
    shelf = step.shelf
    tasks = tuple(
        NewTask(shelf.queues[queue].queue.id, shelf.lanes[lane].kind, value or b"", priority, description=description)
        for _, lane, priority, description, value, _, _ in rows
    )
    made, _ = take_ids(step, tasks)
    Births(step, tasks, made, set()).store()
    for number, (_, _, _, _, _, blob, size) in zip(made, rows, strict=True):
        if blob is not None:
            step.run(Q.data_put, (number, "spec", None, blob, size))
            step.run(Q.spec_away, (number,))
