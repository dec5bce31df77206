"""How moves are applied: read what they are about, judge each, write those alike together, then follow what ended."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import apsw
import msgspec

from ganger.core.errors import GangerError, TaskNotFound, WrongStatus
from ganger.core.lane import avoiding
from ganger.core.state import (
    LEASED,
    RULES,
    WAY,
    Counter,
    Move,
    Rule,
    Status,
    Verdict,
    aim_kick,
    cut_spans,
    is_final,
    judge,
)
from ganger.core.task import SLOTLESS, SOURCE, SUCCESSOR, Kind, NewTask
from ganger.engine.stores.sqlite.cascade import Cascade, Ended
from ganger.engine.stores.sqlite.guard import lease_valid, stale
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.linking import count_each
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import EntryRow, Step
from ganger.engine.stores.sqlite.submitting import Births, take_ids

COUNTED: Final = tuple(counter for counter in Counter if counter is not Counter.RESERVES)
_WAITS: Final = (Status.QUEUED, Status.DELAYED)
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
    waits: int
    kill: int


_ROWS: Final = msgspec.json.Decoder(list[Row])


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
    touched: bool


class Bundle(NamedTuple):
    """Tasks of one queue that move alike, in the order in which they come: which, and what each is."""

    queue: int
    ids: list[int]
    rows: list[Row]


Alike = dict[Shape, list[Bundle]]


def apply(step: Step, moves: Sequence[Move]) -> list[tuple[int, str]]:
    """Apply each move that may be made; the indexes and verdicts of the others."""
    refused: list[tuple[int, str]] = []
    cascade = Cascade(step)
    for span in cut_spans(moves):
        step.cut_facts()
        refused += _apply_span(step, moves, span, cascade)
    refill(step)
    if cascade.ended:
        # What follows is told behind the moves that it follows from.
        step.cut_facts()
        cascade.run()
    return refused


def read_rows(step: Step, ids: Sequence[int]) -> dict[int, Row]:
    """What moves need to know of these tasks (at least one), of those that are there. See `bulk` for the one value."""
    return {row.id: row for row in _ROWS.decode(step.run(Q.moves_read, (apsw.carray(array("q", ids)),)).get)}


def refusal(move: Move, verdict: str) -> GangerError:
    """A refused move as the error that a caller of an all-or-nothing step gets."""
    if verdict == Verdict.STALE:
        return stale(move.task, move.fence)
    if verdict == Verdict.GONE:
        return TaskNotFound(f"there is no task {move.task}", task=move.task)
    return WrongStatus(f"task {move.task} is not where {move.rule} starts", task=move.task, rule=move.rule)


def _apply_span(step: Step, moves: Sequence[Move], span: range, cascade: Cascade) -> list[tuple[int, str]]:
    rows = read_rows(step, [move.task for move in moves[span.start : span.stop]])
    sorting = Sorting(step)
    refused: list[tuple[int, str]] = []
    for index in span:
        move = moves[index]
        if (row := rows.get(move.task)) is None:
            refused.append((index, Verdict.GONE.value))
        elif (verdict := sorting.put(move, row)) is not Verdict.APPLIED:
            refused.append((index, verdict.value))
    keep_results(step, sorting.results)
    for shape, bundles in sorting.alike.items():
        _write(step, shape, bundles, cascade)
    return refused


class Sorting:
    """Judges moves one by one and puts together those that are alike; what many have in common is asked once."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.alike: Alike = {}
        self.results: list[tuple[int, bytes]] = []
        self._bundles: dict[tuple[object, ...], Bundle] = {}
        self._good: dict[tuple[int | None, int | None], bool] = {}

    def put(self, move: Move, row: Row) -> Verdict:
        if row.status == Status.HELD:
            move = _kicked(self.step, move, row)
        verdict = self._judge(move, row)
        if verdict is Verdict.APPLIED:
            key = (move[WAY], row.queue, row.lane, row.until is None, move.avoid and row.holder)
            if (bundle := self._bundles.get(key)) is None:
                bundle = self._bundles[key] = self._bundle(move, row)
            bundle.ids.append(row.id)
            bundle.rows.append(row)
            if move.result is not None:
                self.results.append((move.task, move.result))
        return verdict

    def _judge(self, move: Move, row: Row) -> Verdict:
        rule = RULES[move.rule]
        if not rule.by_holder:
            # A lease is given by a claim alone, which knows to whom.
            gives = rule.target in LEASED
            return Verdict.WRONG_STATUS if gives else judge(rule, row.status, row.fence, move.fence, True)
        lease = (row.holder, row.until)
        if (good := self._good.get(lease)) is None:
            good = self._good[lease] = lease_valid(self.step, *lease)
        return judge(rule, row.status, row.fence, move.fence, good)

    def _bundle(self, move: Move, row: Row) -> Bundle:
        bundle = Bundle(row.queue, [], [])
        self.alike.setdefault(_shape(self.step, move, row), []).append(bundle)
        return bundle


def _kicked(step: Step, move: Move, row: Row) -> Move:
    return aim_kick(move, row.status, row.waits > 0 or step.shelf.lanes[row.lane].kind in SLOTLESS)


def _write(step: Step, shape: Shape, bundles: list[Bundle], cascade: Cascade) -> None:
    _write_alike(step, shape, bundles)
    for bundle in bundles:
        _tell(step, shape, bundle)
        if is_final(shape.target):
            _end(step, shape, bundle, cascade)
        elif shape.target == Status.BLOCKED:
            # A group whose last member ended while it was held has nothing left to wait for.
            cascade.end_groups([row.id for row in bundle.rows if step.shelf.lanes[row.lane].kind == Kind.GROUP])


def _shape(step: Step, move: Move, row: Row) -> Shape:
    return Shape(
        move.rule, move.target, move.due, move.priority, move.reason, move.crashed, move.branch,
        _lane_after(step, move, row), row.until is not None,
    )  # fmt: skip


def _lane_after(step: Step, move: Move, row: Row) -> int | None:
    """The lane into which the move brings the task; None if it stays where it is."""
    if move.target not in _WAITS:
        # What nobody may take avoids nobody.
        return step.shelf.plain_lane(step.session, row.lane) if row.lane < 0 else None
    if move.avoid and (identity := _identity(step, row.holder)):
        return step.lane(avoiding(step.shelf.lanes[row.lane], identity, step.wall + move.avoid))
    return None


def _identity(step: Step, holder: int | None) -> int:
    """Who held it, also when its registration has ended."""
    if (node := step.node(holder)) is not None:
        return node.identity
    if holder is None:
        return 0
    return next((int(row[0]) for row in step.run(Q.node_identity, (holder,))), 0)


def _write_alike(step: Step, shape: Shape, bundles: list[Bundle]) -> None:
    rule, ids = RULES[shape.rule], apsw.carray(array("q", [id for bundle in bundles for id in bundle.ids]))
    if rule.ends_lease and (tried := _find_tried(rule, bundles)):
        step.run(Q.attempts_end, (step.wall, shape.rule, shape.target, shape.reason, apsw.carray(tried)))
    if shape.rule == "succeed" and shape.reason is None and shape.branch and not shape.touched:
        step.run(Q.moves_succeed, (step.wall, ids))
        # Apart from the rest: the index of those to be killed has few entries, and the others need not touch it.
        if killed := array("q", [row.id for bundle in bundles for row in bundle.rows if row.kill]):
            step.run(Q.kill_clear, (apsw.carray(killed),))
    elif shape.rule == "start":
        step.run(Q.moves_start, (step.wall, ids))
    else:
        step.run(Q.moves_apply, _bindings(step, shape, rule, ids))


def _find_tried(rule: Rule, bundles: list[Bundle]) -> "array[int]":
    """Whose attempts end by this rule. Most rules end that of each, and then none is looked at."""
    if rule.ends_attempt(Status.CLAIMED):
        return array("q", [id for bundle in bundles for id in bundle.ids])
    return array("q", [row.id for bundle in bundles for row in bundle.rows if rule.ends_attempt(row.status)])


def _bindings(step: Step, shape: Shape, rule: Rule, ids: object) -> dict[str, object]:
    counts: dict[str, object] = {counter.value: int(counter in rule.adds) for counter in COUNTED}
    if shape.crashed:
        counts["crashes"] = 1
    return counts | {
        "status": shape.target, "lane": shape.lane, "priority": shape.priority, "due": shape.due,
        "fence": int(shape.rule in _LOSSES), "final": is_final(shape.target), "wall": step.wall,
        "reason": shape.reason, "branch": shape.branch, "ids": ids,
    }  # fmt: skip


def _tell(step: Step, shape: Shape, bundle: Bundle) -> None:
    queue, ids, rows = bundle
    rule, target, reason = RULES[shape.rule], shape.target, shape.reason
    raised = int(shape.rule in _LOSSES)
    told = [(id, target, row.fence + raised, reason) for id, row in zip(ids, rows, strict=True)]
    for holder, some in _part(told, [row.holder for row in rows]):
        step.tell(rule.fact, queue, holder or 0, some)
    step.count(queue, target, len(rows))
    for status, n in count_each([row.status for row in rows]).items():
        step.count(queue, status, -n)
    _free(step, shape, queue, rows)


def _part(told: list[EntryRow], holders: list[int | None]) -> Iterable[tuple[int | None, list[EntryRow]]]:
    """What is told of each holder's tasks; mostly they have all the same."""
    if holders.count(holders[0]) == len(holders):
        return [(holders[0], told)]
    parts: dict[int | None, list[EntryRow]] = {}
    for holder, entry in zip(holders, told, strict=True):
        parts.setdefault(holder, []).append(entry)
    return parts.items()


def _free(step: Step, shape: Shape, queue: int, rows: list[Row]) -> None:
    """What else changes when these tasks move: keys to look at again, lanes that have a task, room under a limit."""
    step.keys.update((queue, row.limit_key) for row in rows if row.limit_key is not None)
    if shape.target in _WAITS:
        for lane in {row.lane for row in rows} if shape.lane is None else {shape.lane}:
            step.readied(queue, lane)
    elif RULES[shape.rule].ends_lease:
        step.freed.add(queue)


def keep_results(step: Step, results: list[tuple[int, bytes]]) -> None:
    if results:
        step.run_many(Q.data_put, [(task, "result", result, None, len(result)) for task, result in results])


def _end(step: Step, shape: Shape, bundle: Bundle, cascade: Cascade) -> None:
    cascade.ended += [
        Ended(row.id, shape.target, shape.branch, shape.reason, row.kids, row.grp)
        for row in bundle.rows
        if row.kids or row.grp is not None
    ]
    if shape.rule == "succeed":
        becomes = step.shelf.queues[bundle.queue].queue.policy.becomes
        if becomes is not None and becomes in step.shelf.queues:
            _become(step, becomes, bundle.ids)


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
    for number, (source, _, _, _, _, blob, size) in zip(made, rows, strict=True):
        for task, key, other in ((number, SOURCE, source), (source, SUCCESSOR, number)):
            step.run(Q.data_put, (task, key, b"%d" % other, None, len(str(other))))
        if blob is not None:
            step.run(Q.data_put, (number, "spec", None, blob, size))
            step.run(Q.spec_away, (number,))
