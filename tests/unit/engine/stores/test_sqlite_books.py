"""What the owner keeps at hand stays true, whatever is done and whatever fails."""

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ganger.core.audit import Act
from ganger.core.clock import Wall
from ganger.core.errors import GangerError, StoreFull, UnknownGroup
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.queue import Policy
from ganger.core.state import LEASED, RULES, is_final, move
from ganger.core.task import Claimed, NewTask
from ganger.databases.sqlite import Session
from ganger.engine.store import (
    Change,
    Claim,
    Configure,
    Edit,
    Edits,
    Exchange,
    NodeChange,
    QueueChange,
    Submission,
    Tend,
)
from ganger.engine.stores.sqlite.editing import edit
from ganger.engine.stores.sqlite.exchanging import exchange
from ganger.engine.stores.sqlite.joining import configure
from ganger.engine.stores.sqlite.submitting import submit
from ganger.engine.stores.sqlite.tending import tend
from tests.unit.engine.stores.owner import Owner, payload

HOLDER_RULES = sorted(rule.name for rule in RULES.values() if rule.by_holder)
OPERATOR_RULES = ["cancel", "hold", "kick"]
picks = st.integers(0, 1_000)


def claim_twice(session: Session, request: Exchange) -> None:
    exchange(session, request)
    exchange(session, request)


UNITS: dict[str, tuple[Any, Callable[[QueueId, NodeId, int], Any]]] = {
    "submit": (submit, lambda queue, _, __: Submission((NewTask(queue, "condition"), payload(queue, limit_key="x")))),
    "claim": (exchange, lambda queue, node, _: Exchange(claim=Claim(node, (queue,), 3))),
    "claim twice": (claim_twice, lambda queue, node, _: Exchange(claim=Claim(node, (queue,), 50))),
    "promote": (tend, lambda _, __, ___: Tend(promote=True)),
    "prune": (tend, lambda _, __, wall: Tend(prune_before=Wall(wall))),
    "delete": (configure, lambda queue, _, __: Configure(queue=QueueChange(id=queue, delete=True, drop=True))),
    "make": (configure, lambda _, __, ___: Configure(queue=QueueChange(name="new"), act=Act("ada", "make"))),
    "drain": (configure, lambda _, node, __: Configure(node=NodeChange(id=node, drain=True), act=Act("ada", "drain"))),
}


class Books(RuleBasedStateMachine):
    """Random work on one file. Every rule that is refused leaves no trace."""

    @initialize()
    def open(self) -> None:
        self.owner = Owner()
        self.queues = [self.owner.queue("a"), self.owner.queue("b", max_per_key=1), self.owner.queue("c", sort="lifo")]
        self.nodes = {"n": self.owner.node("n", slots=2), "m": self.owner.node("m")}
        self.held: list[Claimed] = []

    def try_(self, operation: Any, request: Any) -> Any:
        try:
            return self.owner.run(operation, request)
        except GangerError:
            return None

    def last(self, number: str, table: str) -> int:
        return int(self.owner.read(f"SELECT coalesce(max({number}), 0) FROM {table}")[0][0])

    def pick(self, pick: int) -> TaskId:
        ids = [row[0] for row in self.owner.read("SELECT id FROM task ORDER BY id")]
        return TaskId(ids[pick % len(ids)] if ids else 1)

    @rule(
        queue=st.integers(0, 2),
        limit_key=st.sampled_from([None, None, "x", "y"]),
        delay=st.sampled_from([0, 0, 50]),
        priority=st.integers(0, 3),
        size=st.integers(1, 3),
    )
    def submit_some(self, queue: int, limit_key: str | None, delay: int, priority: int, size: int) -> None:
        task = payload(self.queues[queue], limit_key=limit_key, delay=delay, priority=priority)
        self.owner.submit(*[task] * size)

    @rule(
        queue=st.integers(0, 2),
        parents=st.lists(picks, min_size=1, max_size=3),
        on=st.sampled_from(On),
        any_=st.booleans(),
    )
    def submit_child(self, queue: int, parents: list[int], on: On, any_: bool) -> None:
        edges = tuple(Edge(self.pick(parent), on) for parent in parents)
        join = Join.ANY if any_ else Join.ALL
        self.try_(submit, Submission((payload(self.queues[queue], parents=edges, join=join),)))

    @rule(queue=st.integers(0, 2), kind=st.sampled_from(["shell", "command"]), touch=st.booleans())
    def submit_another_kind(self, queue: int, kind: str, touch: bool) -> None:
        self.owner.submit(NewTask(self.queues[queue], kind, renewal="touch" if touch else "liveness", ttr=30))

    @rule(queue=st.integers(0, 2), kind=st.sampled_from(["shell", "plugin:new"]))
    def submit_in_vain(self, queue: int, kind: str) -> None:
        keyed = payload(self.queues[queue], limit_key="x", parents=(Edge(-1),))
        with pytest.raises(UnknownGroup):
            self.owner.submit(NewTask(self.queues[queue], kind), keyed, payload(self.queues[queue], group=10**9))

    @rule(
        queue=st.integers(0, 2),
        name=st.sampled_from("nm"),
        what=st.sampled_from(sorted(UNITS)),
        flushed=st.booleans(),
    )
    def do_in_vain(self, queue: int, name: str, what: str, flushed: bool) -> None:
        """A unit that was run to its end is taken back, as when the answer is too large or the disk fails."""
        operation, ask = UNITS[what]
        request = ask(self.queues[queue], self.nodes[name], self.owner.clock.wall())

        def fail(session: Session, asked: Any) -> None:
            operation(session, asked)
            if flushed:
                session.flush()
            raise StoreFull("no room for the answer")

        with pytest.raises(GangerError):
            self.owner.run(fail, request)

    @rule(queue=st.integers(0, 2), members=st.integers(0, 3))
    def submit_group(self, queue: int, members: int) -> None:
        group = NewTask(self.queues[queue], "group")
        self.owner.submit(group, *[payload(self.queues[queue], group=-1, limit_key="x")] * members)

    @rule(queue=st.integers(0, 2), key=st.sampled_from("kl"), again=st.booleans())
    def submit_key(self, queue: int, key: str, again: bool) -> None:
        task = payload(self.queues[queue], key=key, on_conflict="return" if again else "refuse")
        self.try_(submit, Submission((payload(self.queues[queue]), task, task)))

    @rule(name=st.sampled_from("nm"), queues=st.sets(st.integers(0, 2), min_size=1), most=st.integers(1, 4))
    def claim(self, name: str, queues: set[int], most: int) -> None:
        asked = [self.queues[queue] for queue in sorted(queues)]
        self.held += self.owner.claim(self.nodes[name], *asked, most=most)

    @precondition(lambda self: self.held)
    @rule(pick=picks, name=st.sampled_from(HOLDER_RULES), avoid=st.sampled_from([0, 30_000]))
    def settle(self, pick: int, name: str, avoid: int) -> None:
        one = self.held[pick % len(self.held)]
        due = self.owner.clock.wall() + 50 if name.endswith("_later") else None
        self.owner.exchange(move(one.id, name, one.fence)._replace(avoid=avoid, due=due))

    @rule(pick=picks, name=st.sampled_from(OPERATOR_RULES))
    def operate(self, pick: int, name: str) -> None:
        self.owner.move(name, self.pick(pick))

    @rule(pick=picks, other=picks, on=st.sampled_from(On))
    def link(self, pick: int, other: int, on: On) -> None:
        self.try_(edit, Edits((Edit(self.pick(pick), link=(self.pick(other), on)),)))

    @rule(pick=picks, other=picks)
    def unlink(self, pick: int, other: int) -> None:
        self.try_(edit, Edits((Edit(self.pick(pick), unlink=self.pick(other)),)))

    @rule(pick=picks, kill=st.booleans(), descendants=st.booleans(), priority=st.integers(0, 3))
    def change(self, pick: int, kill: bool, descendants: bool, priority: int) -> None:
        task = self.pick(pick)
        one = Edit(task, kill=True) if kill else Edit(task, remove=True, descendants=descendants)
        self.try_(edit, Edits((Edit(task, change=Change(priority=priority)), one)))
        self.try_(edit, Edits((one,)))

    @rule(queue=st.integers(0, 1), limit=st.sampled_from([None, 1, 2]), sort=st.sampled_from(["fifo", "lifo"]))
    def set_policy(self, queue: int, limit: int | None, sort: str) -> None:
        policy = Policy(max_per_key=limit, sort=sort)
        self.owner.run(configure, Configure(queue=QueueChange(id=self.queues[queue], policy=policy)))

    @rule(queue=st.integers(0, 2))
    def delete_queue(self, queue: int) -> None:
        change = QueueChange(id=self.queues[queue], delete=True, drop=True)
        if self.try_(configure, Configure(queue=change, act=Act("ada", "delete"))) is not None:
            self.queues[queue] = self.owner.queue("again", max_per_key=1)

    @rule(name=st.sampled_from("nm"))
    def leave(self, name: str) -> None:
        self.try_(configure, Configure(node=NodeChange(id=self.nodes[name], token=name, leave=True)))
        self.nodes[name] = self.owner.node(name)

    @rule(chore=st.sampled_from(["promote", "release", "lapse"]), most=st.integers(1, 5))
    def tend(self, chore: str, most: int) -> None:
        for one in self.owner.tend(**{chore: True}, most=most).lapsed:
            self.owner.move("lose", one.task, one.fence)

    @rule(most=st.integers(1, 5))
    def prune(self, most: int) -> None:
        self.owner.tend(prune_before=self.owner.clock.wall(), most=most)

    @rule(pass_=st.sampled_from([1, 60, 40_000]))
    def wait(self, pass_: int) -> None:
        self.owner.clock.advance(pass_)
        self.nodes = {name: self.owner.node(name, slots=2 if name == "n" else None) for name in self.nodes}

    @invariant()
    def tallies_are_what_is_in_the_table(self) -> None:
        real = dict(Counter(map(tuple, self.owner.read("SELECT queue, status FROM task"))))
        stored = {(queue, status): n for queue, status, n in self.owner.read("SELECT * FROM tally") if n}
        shelved = {key: n for key, n in self.owner.shelf.tally.items() if n}

        assert real == stored == shelved

    @invariant()
    def a_new_owner_reads_the_same_books(self) -> None:
        mine, fresh = self.owner.shelf, Owner(self.owner.connection, self.owner.clock).shelf

        # A unit that failed may have taken numbers; nobody has seen them.
        assert mine.next_task >= fresh.next_task > self.last("id", "task")
        assert mine.next_event >= fresh.next_event > self.last("position", "event")
        assert (mine.queues, mine.lanes, mine.lane_ids) == (fresh.queues, fresh.lanes, fresh.lane_ids)
        assert (mine.nodes, mine.audit_hash) == (fresh.nodes, fresh.audit_hash)
        assert +Counter(mine.counters) == +Counter(fresh.counters)
        assert all(lanes <= mine.lined.get(queue, set()) for queue, lanes in fresh.lined.items())

    @invariant()
    def the_best_tasks_of_each_key_are_ready_and_no_others(self) -> None:
        rows = self.owner.read(
            "SELECT queue, limit_key, holder IS NOT NULL, priority, rank, parked FROM task "
            "WHERE limit_key IS NOT NULL AND (status = -2 OR holder IS NOT NULL) ORDER BY queue, limit_key, 4, 5"
        )
        for (queue, _), alike in groupby(rows, key=lambda row: row[:2]):
            tasks = list(alike)
            limit = self.owner.shelf.queues[queue].queue.policy.max_per_key
            waiting = [row for row in tasks if not row[2]]
            room = len(waiting) if limit is None else max(0, limit - (len(tasks) - len(waiting)))
            assert [bool(row[5]) for row in waiting] == [index >= room for index in range(len(waiting))]

    @invariant()
    def a_task_without_a_key_is_never_parked(self) -> None:
        assert not self.owner.read("SELECT id FROM task WHERE parked AND limit_key IS NULL")

    @invariant()
    def leases_are_where_holders_are(self) -> None:
        for status, holder, until, ended in self.owner.read("SELECT status, holder, until, ended FROM task"):
            assert (status in LEASED) == (holder is not None)
            assert until is None or holder is not None
            assert is_final(status) == (ended is not None)

    @invariant()
    def edges_are_counted_at_both_ends(self) -> None:
        kids = dict(self.owner.read("SELECT parent, count(*) FROM edge GROUP BY parent"))
        assert dict(self.owner.read("SELECT id, kids FROM task WHERE kids <> 0")) == kids
        waits = self.owner.read(
            "SELECT task.id, waits, (SELECT count(*) FROM edge JOIN task AS p ON p.id = parent "
            "WHERE child = task.id AND p.status <= 0 AND p.status NOT IN (-3, -5, -6)) "
            "FROM task JOIN lane ON lane.id = lane WHERE kind <> 'group' AND any_join = 0 AND status = -4"
        )
        assert all(counted == real > 0 for _, counted, real in waits), waits

    @invariant()
    def groups_count_the_members_that_have_not_ended(self) -> None:
        groups = self.owner.read(
            "SELECT task.id, waits, (SELECT count(*) FROM task AS m WHERE m.grp = task.id AND m.ended IS NULL) "
            "FROM task JOIN lane ON lane.id = lane WHERE kind = 'group' AND status = -4 AND any_join = 0 "
            "AND NOT EXISTS (SELECT 1 FROM edge WHERE child = task.id)"
        )
        assert all(counted == real > 0 for _, counted, real in groups), groups

    def teardown(self) -> None:
        if hasattr(self, "owner"):
            self.owner.connection.close()


TestBooks = Books.TestCase
TestBooks.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
