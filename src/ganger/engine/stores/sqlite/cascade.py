"""What follows when tasks end: children are released or lost, groups end, and so on down.

The work is done level by level. All parents that ended in one step are taken together, so that a join that waits for a
thousand of them is read and written once. Each edge is followed exactly once: a task becomes final once, and it is in
the same transaction that its edges are followed, or that it is written down as having edges left to follow.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import apsw

from ganger.core.event import Fact
from ganger.core.graph import SKIPPED, Closed, holds, lost_reason
from ganger.core.release import Turn, conclude, find_due, is_unhappy, turn
from ganger.core.state import RULES, Status
from ganger.engine.store import STEP_EDGES
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

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
    any_join: int
    kids: int
    grp: int | None
    due: int | None
    delay: int
    limit_key: str | None
    fence: int


class GroupRow(NamedTuple):
    id: int
    queue: int
    lane: int
    waits: int
    failures: int
    kids: int
    grp: int | None
    status: int


class Cascade:
    """Follows what ended until nothing follows, or the step has followed enough."""

    def __init__(self, step: Step, budget: int = STEP_EDGES) -> None:
        self.step = step
        self.budget = budget
        self.ended: list[Ended] = []

    def run(self) -> None:
        while self.ended:
            level, self.ended = self.ended, []
            self._groups(level)
            self._children(level)
        refill(self.step)

    def _children(self, level: list[Ended]) -> None:
        closed: dict[int, Closed] = {}
        small, others = self._cut(level)
        self._close_all(small, closed)
        for parent in others:
            self._close(parent, closed)
        for child in self._read(closed):
            self._decide(child, closed[child.id])

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

    def _close_all(self, parents: dict[int, Ended], closed: dict[int, Closed]) -> None:
        """Edges of many parents in one walk: of a join all lead to the same child."""
        rows = list(self.step.run(Q.edges_from_all, (apsw.carray(array("q", parents)),))) if parents else []
        for parent, child, on in rows:
            closed.setdefault(child, Closed()).add(parents[parent], on)
        self.budget = max(0, self.budget - len(rows))

    def _close(self, parent: Ended, closed: dict[int, Closed]) -> None:
        rows = list(self.step.run(Q.edges_from, (parent.id, parent.after, self.budget + 1)))
        for child, on in rows[: self.budget]:
            closed.setdefault(child, Closed()).add(parent, on)
        if len(rows) > self.budget:
            after = rows[self.budget - 1][0] if self.budget else parent.after
            self.step.run(Q.follow_put, (parent.id, after))
        elif parent.after:
            self.step.run(Q.follow_done, (parent.id,))
        self.budget -= min(len(rows), self.budget)

    def _read(self, closed: Iterable[int]) -> list[Child]:
        ids = array("q", closed)
        rows = self.step.run(Q.children_read, (apsw.carray(ids),)) if ids else ()
        return [Child._make(row) for row in rows]

    def _decide(self, child: Child, closed: Closed) -> None:
        turned, waits = turn(child, self.step.shelf.lanes[child.lane].kind, closed)
        match turned:
            case Turn.LOSE:
                self._lose(child, waits, closed.why or self._why_lost(child.id))
            case Turn.CONCLUDE:
                self._set_waits(child, waits)
                self.end_groups([child.id])
            case Turn.UNBLOCK:
                self._unblock(child, waits)
            case Turn.WAKE:
                self._set_waits(child, waits)
                self.step.woken.add(child.queue)
            case Turn.COUNT:
                self._set_waits(child, waits)

    def _why_lost(self, child: int) -> str:
        """The reason in the edges that are left, when the edge that gave hope was taken away by hand."""
        for parent, on, status, branch, reason in self.step.run(Q.edges_decided, (child,)):
            if not holds(on, status, bool(branch)):
                return lost_reason(on, parent, status, reason)
        return SKIPPED

    def decide_again(self, child: int, gone: int, closed: Closed, free: bool) -> None:
        """A child's edges were changed by hand: `gone` open ones less. `free`: it has none at all now."""
        for row in self._read([child]):
            changed = row._replace(waits=row.waits - gone, any_join=0 if free else row.any_join)
            if closed.edges or changed.waits == 0:
                self._decide(changed, closed)
            else:
                self._set_waits(changed, changed.waits)

    def _set_waits(self, child: Child, waits: int) -> None:
        self.step.run(Q.waits_set, (waits, self.step.wall, child.id))

    def _unblock(self, child: Child, waits: int) -> None:
        step = self.step
        name, due = find_due(child.due, child.delay, step.wall)
        rule = RULES[name]
        step.run(Q.unblock, (rule.target, waits, due, step.wall, child.id))
        self._moved(child, rule.target)
        step.tell(rule.fact, child.queue, 0, [(child.id, rule.target, child.fence, None)])
        step.readied(child.queue, child.lane)
        if child.limit_key is not None:
            step.keys.add((child.queue, child.limit_key))

    def lose(self, doomed: Iterable[tuple[int, str]]) -> None:
        """Cancel these, whose edges can never hold."""
        reasons = dict(doomed)
        for child in self._read(reasons):
            self._lose(child, child.waits, reasons[child.id])

    def _lose(self, child: Child, waits: int, reason: str) -> None:
        step, rule = self.step, RULES["skip"]
        step.run(Q.cancel_lost, (waits, reason, step.wall, step.wall, child.id))
        self._moved(child, rule.target)
        step.tell(rule.fact, child.queue, 0, [(child.id, rule.target, child.fence, reason)])
        self.ended.append(Ended(child.id, rule.target, True, reason, child.kids, child.grp))

    def _moved(self, child: Child, target: int) -> None:
        self.step.count(child.queue, child.status, -1)
        self.step.count(child.queue, target, 1)

    def _groups(self, level: list[Ended]) -> None:
        members = Counter(ended.grp for ended in level if ended.grp is not None)
        bad = Counter(ended.grp for ended in level if ended.grp is not None and is_unhappy(ended.status, ended.reason))
        for group, n in members.items():
            self.leave_group(group, n, bad[group])

    def leave_group(self, group: int, members: int, unhappy: int) -> None:
        """So many members of the group have ended, some of them badly."""
        for row in list(self.step.run(Q.member_ended, (members, unhappy, self.step.wall, group))):
            self._conclude(GroupRow._make(row))

    def end_groups(self, groups: Iterable[int]) -> None:
        """Conclude these groups if nothing is left to wait for."""
        for group in groups:
            for row in list(self.step.run(Q.group_read, (group,))):
                self._conclude(GroupRow._make(row))

    def _conclude(self, group: GroupRow) -> None:
        if group.waits > 0 or group.status != Status.BLOCKED:
            return
        name, reason = conclude(group.failures)
        step, rule = self.step, RULES[name]
        step.run(Q.conclude, (rule.target, reason, step.wall, step.wall, group.id))
        step.count(group.queue, group.status, -1)
        step.count(group.queue, rule.target, 1)
        step.tell(Fact.SETTLED, group.queue, 0, [(group.id, rule.target, 0, reason)])
        self.ended.append(Ended(group.id, rule.target, True, reason, group.kids, group.grp))


def resume(step: Step, left: Iterable[tuple[int, int, int, int, str | None]], budget: int) -> Cascade:
    """Follow on where an earlier step stopped: rows of parent, child after which to go on, status, branch, reason."""
    cascade = Cascade(step, budget)
    for parent, after, status, branch, reason in list(left):
        step.run(Q.follow_done, (parent,))
        cascade.ended.append(Ended(parent, status, bool(branch), reason, _UNCOUNTED, None, after))
    cascade.run()
    return cascade
