"""What follows when tasks end: children are released or lost, groups end, and so on down.

The work is done level by level. All parents that ended in one step are taken together, so that a join that waits for a
thousand of them is read and written once, and all that one level writes is written together. Each edge is followed
exactly once: a task becomes final once, and it is in the same transaction that its edges are followed, or that it is
written down as having edges left to follow. A step that follows edges runs alone, so no two can decide about one child.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, assert_never

from ganger.core.graph import SKIPPED, Closed, holds, lost_reason
from ganger.core.release import Turn, conclude, find_due, is_unhappy, turn
from ganger.core.state import RULES, Status
from ganger.engine.store import STEP_EDGES
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import columns
from ganger.engine.stores.postgres.step import Step

_UNCOUNTED = 1 << 62
"""As `kids`: there are some, perhaps very many."""


class Ended(NamedTuple):
    """A task that has just become final, as far as others care."""

    id: int
    status: int
    branch: bool
    reason: str | None
    kids: int
    grp: int | None
    after: int = 0


class Child(NamedTuple):
    id: int
    queue: int
    lane: int
    status: int
    waits: int
    any_join: bool
    kids: int
    grp: int | None
    due: int | None
    delay: int
    limit_key: str | None
    fence: int
    failures: int


class Cascade:
    """Follows what ended until nothing follows, or the step has followed enough."""

    def __init__(self, step: Step, budget: int = STEP_EDGES) -> None:
        self.step = step
        self.budget = budget
        self.ended: list[Ended] = []
        self._waits: list[tuple[int, int]] = []
        self._unblocked: list[tuple[int, int, int, int | None]] = []
        self._over: list[tuple[int, int, int, str | None]] = []

    async def run(self) -> None:
        if self.ended:
            self.step.run_alone()
        while self.ended:
            level, self.ended = self.ended, []
            await self._groups(level)
            await self._children(level)
        await refill(self.step)

    async def _write(self) -> None:
        """Store what was decided."""
        step = self.step
        if self._waits:
            await step.run(Q.waits_set, step.wall, *columns(self._waits, 2))
        if self._unblocked:
            await step.run(Q.unblock, step.wall, *columns(self._unblocked, 4))
        if self._over:
            await step.run(Q.end_waiting, step.wall, *columns(self._over, 4))
        self._waits, self._unblocked, self._over = [], [], []

    async def _children(self, level: list[Ended]) -> None:
        closed: dict[int, Closed] = {}
        small, others = self._cut(level)
        await self._close_all(small, closed)
        for parent in others:
            await self._close(parent, closed)
        for child in await self._read(closed):
            await self._decide(child, closed[child.id])
        await self._write()

    def _cut(self, level: list[Ended]) -> tuple[dict[int, Ended], list[Ended]]:
        """The parents whose edges fit into this step together, and those that are looked at one by one."""
        small: dict[int, Ended] = {}
        others: list[Ended] = []
        left = self.budget
        for parent in level:
            if 0 < parent.kids <= left and not parent.after:
                small[parent.id] = parent
                left -= parent.kids
            elif parent.kids:
                others.append(parent)
        return small, others

    async def _close_all(self, parents: dict[int, Ended], closed: dict[int, Closed]) -> None:
        """Edges of many parents in one walk: of a join all lead to the same child."""
        rows = await self.step.run(Q.edges_from_all, list(parents)) if parents else []
        for parent, child, on in rows:
            closed.setdefault(child, Closed()).add(parents[parent], on)
        self.budget = max(0, self.budget - len(rows))

    async def _close(self, parent: Ended, closed: dict[int, Closed]) -> None:
        rows = await self.step.run(Q.edges_from, parent.id, parent.after, self.budget + 1)
        for child, on in rows[: self.budget]:
            closed.setdefault(child, Closed()).add(parent, on)
        if len(rows) > self.budget:
            after = rows[self.budget - 1][0] if self.budget else parent.after
            await self.step.run(Q.follow_put, parent.id, after)
        elif parent.after:
            await self.step.run(Q.follow_done, [parent.id])
        self.budget -= min(len(rows), self.budget)

    async def _read(self, ids: Iterable[int]) -> list[Child]:
        wanted = list(ids)
        return [Child._make(row) for row in await self.step.run(Q.children_read, wanted)] if wanted else []

    async def _decide(self, child: Child, closed: Closed) -> None:
        turned, waits = turn(child, self.step.shelf.lanes[child.lane].kind, closed)
        match turned:
            case Turn.LOSE:
                self._lose(child, waits, closed.why or await self._why_lost(child.id))
            case Turn.CONCLUDE:
                self._waits.append((child.id, waits))
                self._conclude(child._replace(waits=waits))
            case Turn.UNBLOCK:
                self._unblock(child, waits)
            case Turn.WAKE:
                self._waits.append((child.id, waits))
                self.step.woken.add(child.queue)
            case Turn.COUNT:
                self._waits.append((child.id, waits))
            case _:
                assert_never(turned)

    async def _why_lost(self, child: int) -> str:
        """The reason in the edges that are left, when the edge that gave hope was taken away by hand."""
        for parent, on, status, branch, reason in await self.step.run(Q.edges_decided, child):
            if not holds(on, status, branch):
                return lost_reason(on, parent, status, reason)
        return SKIPPED

    async def decide_again(self, child: int, gone: int, closed: Closed, free: bool) -> None:
        """A child's edges were changed by hand: `gone` open ones less. `free`: it has none at all now."""
        for row in await self._read([child]):
            changed = row._replace(waits=row.waits - gone, any_join=row.any_join and not free)
            if closed.edges or changed.waits == 0:
                await self._decide(changed, closed)
            else:
                self._waits.append((child, changed.waits))
        await self._write()

    def _unblock(self, child: Child, waits: int) -> None:
        step = self.step
        rule, due = find_due(child.due, child.delay, step.wall)
        self._unblocked.append((child.id, RULES[rule].target, waits, due))
        self._moved(child, rule, None)
        step.woken.add(child.queue)
        if child.limit_key is not None:
            step.keys.add((child.queue, child.limit_key))

    async def lose(self, doomed: Iterable[tuple[int, str]]) -> None:
        """Cancel these, whose edges can never hold."""
        reasons = dict(doomed)
        for child in await self._read(reasons):
            self._lose(child, child.waits, reasons[child.id])
        await self._write()

    def _lose(self, child: Child, waits: int, reason: str) -> None:
        self._end(child, "skip", waits, reason)

    def _end(self, child: Child, rule: str, waits: int, reason: str | None) -> None:
        target = RULES[rule].target
        self._over.append((child.id, target, waits, reason))
        self._moved(child, rule, reason)
        self.ended.append(Ended(child.id, target, True, reason, child.kids, child.grp))

    def _moved(self, child: Child, name: str, reason: str | None) -> None:
        step, rule = self.step, RULES[name]
        step.count(child.queue, child.status, -1)
        step.count(child.queue, rule.target, 1)
        step.tell(rule.fact, child.queue, 0, [(child.id, rule.target, child.fence, reason)])

    async def _groups(self, level: list[Ended]) -> None:
        members = Counter(ended.grp for ended in level if ended.grp is not None)
        bad = Counter(ended.grp for ended in level if ended.grp is not None and is_unhappy(ended.status, ended.reason))
        if members:
            rows = [(group, n, bad[group]) for group, n in members.items()]
            await self.step.run(Q.members_ended, self.step.wall, *columns(rows, 3))
            await self.end_groups(group for group in members if group is not None)

    async def end_groups(self, groups: Iterable[int]) -> None:
        """Conclude these groups if nothing is left to wait for."""
        for group in await self._read(groups):
            self._conclude(group)
        await self._write()

    def _conclude(self, group: Child) -> None:
        if group.waits > 0 or group.status != Status.BLOCKED:
            return
        rule, reason = conclude(group.failures)
        self._end(group, rule, group.waits, reason)


async def resume(step: Step, left: Iterable[Any], budget: int) -> Cascade:
    """Follow on where an earlier step stopped: rows of parent, child after which to go on, status, branch, reason."""
    cascade, rows = Cascade(step, budget), list(left)
    await step.run(Q.follow_done, [row[0] for row in rows])
    for parent, after, status, branch, reason in rows:
        cascade.ended.append(Ended(parent, status, branch, reason, _UNCOUNTED, None, after))
    await cascade.run()
    return cascade
