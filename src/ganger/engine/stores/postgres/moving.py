"""How moves are applied: lock and read what they are about, judge each, write them together, then follow what ended.

The rows are locked before they are judged, in the order of their ids, so what `judge` is told stays true until the
commit. The rules are not in the SQL: a statement is told, row by row, what to write.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ganger.core.errors import GangerError, TaskNotFound, WrongStatus
from ganger.core.lane import avoiding
from ganger.core.queue import Queue
from ganger.core.state import LEASED, RULES, WAY, Counter, Move, Status, Verdict, aim_kick, cut_spans, is_final, judge
from ganger.core.task import SLOTLESS, SOURCE, SUCCESSOR, Kind, NewTask
from ganger.databases.postgres import RunAgain
from ganger.engine.stores.postgres.cascade import Cascade, Ended
from ganger.engine.stores.postgres.guard import lease_valid, read_rows, stale
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.placing import enter, leave
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row, columns
from ganger.engine.stores.postgres.step import Step
from ganger.engine.stores.postgres.submitting import Births, find_orders, take_ids

COUNTED: Final = (Counter.ATTEMPTS, Counter.CRASHES, Counter.TIMEOUTS, Counter.RELEASES, Counter.BURIES, Counter.KICKS)
_LOSSES: Final = frozenset(name for name in RULES if name.startswith("lose"))


class Bundle(NamedTuple):
    """Tasks of one queue, holder and lane that move alike, in the order in which they come."""

    move: Move
    queue: int
    holder: int | None
    lane: int | None
    rows: list[Row]

    @property
    def is_plain_success(self) -> bool:
        move = self.move
        return (
            move.rule == "succeed" and move.reason is None and move.branch and self.lane is None
            and self.rows[0].until is None
        )  # fmt: skip


async def apply(step: Step, moves: Sequence[Move], rows: dict[int, Row] | None = None) -> list[tuple[int, str]]:
    """Apply each move that may be made; the indexes and verdicts of the others. `rows`: those read already."""
    refused: list[tuple[int, str]] = []
    cascade = Cascade(step)
    for span in cut_spans(moves):
        step.cut_facts()
        found = await read_rows(step, (moves[index].task for index in span)) if rows is None else rows
        rows = None
        refused += await _apply_span(step, moves, span, found, cascade)
    await refill(step)
    if cascade.ended:
        # What follows is told behind the moves that it follows from.
        step.cut_facts()
        await cascade.run()
    return refused


def refusal(move: Move, verdict: str) -> GangerError:
    """A refused move as the error that a caller of an all-or-nothing step gets."""
    if verdict == Verdict.STALE:
        return stale(move.task, move.fence)
    if verdict == Verdict.GONE:
        return TaskNotFound(f"there is no task {move.task}", task=move.task)
    return WrongStatus(f"task {move.task} is not where {move.rule} starts", task=move.task, rule=move.rule)


async def _apply_span(
    step: Step, moves: Sequence[Move], span: range, rows: dict[int, Row], cascade: Cascade
) -> list[tuple[int, str]]:
    sorting = Sorting(step)
    refused: list[tuple[int, str]] = []
    for index in span:
        move = moves[index]
        if (row := rows.get(move[0])) is None:
            refused.append((index, Verdict.GONE.value))
        elif (verdict := sorting.judge(move, row)) is not Verdict.APPLIED:
            refused.append((index, verdict.value))
        else:
            (sorting.find(move, row) or await sorting.begin(move, row)).append(row)
    if sorting.results:
        await step.run(Q.results_put, *columns(sorting.results, 2))
    await _write(step, sorting.bundles)
    for bundle in sorting.bundles:
        _tell(step, bundle)
        await _follow(step, bundle, cascade)
    return refused


async def foresee(step: Step, moves: Sequence[Move], rows: dict[int, Row]) -> "Sorting | None":
    """The moves as they will be made, and told, if all are plain successes that mean nothing for others; else None."""
    sorting = Sorting(step)
    for each in moves:
        row = rows[each.task]
        if sorting.judge(each, row) is not Verdict.APPLIED:
            return None
        (sorting.find(each, row) or await sorting.begin(each, row)).append(row)
    if not all(_is_nobodys_business(step, bundle) for bundle in sorting.bundles):
        return None
    for bundle in sorting.bundles:
        _tell(step, bundle)
    return sorting


def is_plain(queue: Queue) -> bool:
    """Does the success of a task of this queue mean nothing for other tasks, as far as the queue goes?"""
    return queue.policy.becomes is None and not queue.policy.is_limited


def _is_nobodys_business(step: Step, bundle: Bundle) -> bool:
    alone = all(not row.kids and row.grp is None and row.limit_key is None for row in bundle.rows)
    return bundle.is_plain_success and alone and is_plain(step.shelf.queues[bundle.queue])


class Sorting:
    """Judges moves one by one and puts together those that are alike; what many have in common is asked once."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.bundles: list[Bundle] = []
        self.results: list[tuple[int, bytes]] = []
        self._known: dict[tuple[object, ...], list[Row]] = {}
        self._good: dict[tuple[int | None, int | None], bool] = {}

    def judge(self, move: Move, row: Row) -> Verdict:
        rule = RULES[_kicked(self.step, move, row).rule]
        if not rule.by_holder:
            # A lease is given by a claim alone, which knows to whom.
            gives = rule.target in LEASED
            return Verdict.WRONG_STATUS if gives else judge(rule, row.status, row.fence, move.fence, True)
        lease = (row.holder, row.until)
        if (good := self._good.get(lease)) is None:
            good = self._good[lease] = lease_valid(self.step, row)
        return judge(rule, row.status, row.fence, move.fence, good)

    def find(self, move: Move, row: Row) -> list[Row] | None:
        """Those that move as this one does, if there are any yet."""
        if move.result is not None:
            self.results.append((move.task, move.result))
        return self._known.get(_alike(move, row))

    async def begin(self, move: Move, row: Row) -> list[Row]:
        """The first of its sort."""
        aimed = _kicked(self.step, move, row)
        bundle = Bundle(aimed, row.queue, row.holder, await _lane_after(self.step, aimed, row), [])
        self._known[_alike(move, row)] = bundle.rows
        self.bundles.append(bundle)
        return bundle.rows


def _alike(move: Move, row: Row) -> tuple[object, ...]:
    # Of held tasks one kick may lead to the queue and another to a block.
    return move[WAY], row.queue, row.holder, row.lane, row.until is None, row.status == Status.HELD and row.waits > 0


def _kicked(step: Step, move: Move, row: Row) -> Move:
    return aim_kick(move, row.status, row.waits > 0 or step.shelf.lanes[row.lane].kind in SLOTLESS)


async def _lane_after(step: Step, move: Move, row: Row) -> int | None:
    """The lane into which the move brings the task; None if it stays where it is."""
    if move.target not in (Status.QUEUED, Status.DELAYED):
        # What nobody may take avoids nobody.
        return step.shelf.plain_lane(row.lane) if row.lane < 0 else None
    if move.avoid and row.identity:
        return await step.lane(avoiding(step.shelf.lanes[row.lane], row.identity, step.wall + move.avoid))
    return None


async def _write(step: Step, bundles: list[Bundle]) -> None:
    succeeded: dict[int, list[Row]] = {}
    started: list[int] = []
    others: list[Bundle] = []
    for bundle in bundles:
        if bundle.is_plain_success:
            succeeded.setdefault(bundle.rows[0].identity, []).extend(bundle.rows)
        elif bundle.move.rule == "start":
            started += [row.id for row in bundle.rows]
        else:
            others.append(bundle)
    for identity, plain in succeeded.items():
        await _succeed(step, identity, plain)
    if started:
        await step.run(Q.moves_start, step.wall, started)
    if others:
        await _write_others(step, others)


async def _succeed(step: Step, identity: int, rows: list[Row]) -> None:
    """Written if the rows still are what was judged; those that were remembered and not locked may not be."""
    if await step.one(Q.moves_succeed, step.wall, identity, *expect(rows)) < len(rows):
        raise RunAgain


def expect(rows: Iterable[Row]) -> list[list[Any]]:
    """What these must still be to be written, column by column."""
    # In the order of their ids, as all rows are locked: these may not be yet.
    return columns(sorted((row.id, row.fence, row.status, row.kids, row.holder) for row in rows), 5)


async def _write_others(step: Step, bundles: list[Bundle]) -> None:
    attempts = [
        (row.id, row.identity, bundle.move.rule, int(bundle.move.target), bundle.move.reason)
        for bundle in bundles
        for row in bundle.rows
        if RULES[bundle.move.rule].ends_attempt(row.status)
    ]
    if attempts:
        await step.run(Q.attempts_end, step.wall, *columns(attempts, 5))
    rows = [_written(bundle, row) for bundle in bundles for row in bundle.rows]
    await leave(step, [row[0] for row in rows])
    await step.run(Q.moves_apply, step.wall, *columns(rows, 15))
    await enter(step, [row[0] for row in rows if row[1] == Status.QUEUED])


def _written(bundle: Bundle, row: Row) -> tuple[Any, ...]:
    move, rule = bundle.move, RULES[bundle.move.rule]
    counts = {counter: int(counter in rule.adds) for counter in COUNTED}
    if move.crashed:
        counts[Counter.CRASHES] = 1
    return (
        row.id, int(move.target), bundle.lane, move.priority, move.due, int(move.rule in _LOSSES),
        is_final(move.target), move.reason, move.branch, *counts.values(),
    )  # fmt: skip


def _tell(step: Step, bundle: Bundle) -> None:
    move, queue, holder, _, rows = bundle
    rule, target, raised = RULES[move.rule], int(move.target), int(move.rule in _LOSSES)
    step.tell(rule.fact, queue, holder or 0, [(row.id, target, row.fence + raised, move.reason) for row in rows])
    step.count(queue, target, len(rows))
    for status, n in Tally(row.status for row in rows).items():
        step.count(queue, status, -n)
    step.keys.update((queue, row.limit_key) for row in rows if row.limit_key is not None)
    if target in (Status.QUEUED, Status.DELAYED):
        step.woken.add(queue)
    elif rule.ends_lease:
        step.freed.add(queue)


async def _follow(step: Step, bundle: Bundle, cascade: Cascade) -> None:
    """What the moves mean for others."""
    move, rows = bundle.move, bundle.rows
    if move.target == Status.BLOCKED:
        # A group whose last member ended while it was held has nothing left to wait for.
        await cascade.end_groups([row.id for row in rows if step.shelf.lanes[row.lane].kind == Kind.GROUP])
    if not is_final(move.target):
        return
    cascade.ended += [
        Ended(row.id, move.target, move.branch, move.reason, row.kids, row.grp)
        for row in rows
        if row.kids or row.grp is not None
    ]
    becomes = step.shelf.queues[bundle.queue].policy.becomes
    if move.rule == "succeed" and becomes is not None and becomes in step.shelf.queues:
        await _become(step, becomes, [row.id for row in rows])


async def _become(step: Step, queue: int, ids: list[int]) -> None:
    """Each result is a new task of the other queue: small ones are copied, large ones are the same blob."""
    # It passes the turnstile in the middle of a step, which is safe only where nobody else is on the way there.
    step.run_alone()
    rows = {row[0]: row for row in await step.run(Q.inherit_read, ids)}
    shelf, ordered = step.shelf, [rows[number] for number in ids]
    tasks = tuple(
        NewTask(shelf.queues[queue].id, shelf.lanes[lane].kind, value or b"", priority, description=description)
        for _, lane, priority, description, value, _, _ in ordered
    )
    orders = await find_orders(step, tasks)
    made, _ = await take_ids(step, tasks)
    await Births(step, tasks, made, set(), orders).store()
    blobs = [(n, "spec", None, row[5], row[6]) for n, row in zip(made, ordered, strict=True) if row[5] is not None]
    pairs = [(n, row[0]) for n, row in zip(made, ordered, strict=True)]
    chain = [
        (task, key, b"%d" % other, None, len(str(other)))
        for number, source in pairs
        for task, key, other in ((number, SOURCE, source), (source, SUCCESSOR, number))
    ]
    await step.run(Q.data_put_all, *columns([*blobs, *chain], 5))
    if blobs:
        await step.run(Q.spec_away, [row[0] for row in blobs])
