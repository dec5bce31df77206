"""A state machine that gives two stores the same requests and compares all that can be seen of them after each.

Whoever writes a store inherits `StoreMachine`, says how the model and the store are opened, and lets Hypothesis look
for a sequence of requests after which the two differ. Requests name tasks, queues and nodes by ordinals, which each
side turns into its own ids; old fences are kept for ever, so stale holders come back again and again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ganger.core.clock import Clock, Entropy, Wall
from ganger.core.errors import GangerError
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Renewal
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.state import RULES, Move, Status, move
from ganger.core.task import SLOTLESS, Kind, NewTask, OnConflict
from ganger.engine.store import (
    Change,
    Claim,
    Configure,
    Edit,
    Edits,
    Exchange,
    NodeChange,
    QueueChange,
    Store,
    Submission,
    Tend,
)
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.drafts import (
    DRAFTS,
    EDITS,
    LEASES,
    OPERATOR_RULES,
    PICK,
    POLICIES,
    RARELY,
    RULE_NAMES,
    Draft,
    write_note,
)
from ganger.testing.picture import Side

Opened = AbstractAsyncContextManager[Store]
Ask = Callable[[Side], Awaitable[Any]]


class StoreMachine(RuleBasedStateMachine):
    """Two stores, one clock, the same requests."""

    def open_model(self, clock: Clock, entropy: Entropy) -> Opened:
        raise NotImplementedError

    def open_store(self, clock: Clock, entropy: Entropy) -> Opened:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.leases: list[tuple[int, int]] = []
        self.seen: dict[str, Any] = {}
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.model, self.tested = self._runner.run(self._open())

    async def _open(self) -> tuple[Side, Side]:
        model = await self._stack.enter_async_context(self.open_model(self.clock, SeededEntropy(1)))
        tested = await self._stack.enter_async_context(self.open_store(self.clock, SeededEntropy(2)))
        return Side(model), Side(tested)

    def teardown(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def both(self, ask: Ask) -> Any:
        """Ask both sides the same; the answers, or the codes of the errors, must be equal."""
        expected, found = (self._runner.run(self._ask(side, ask)) for side in (self.model, self.tested))
        assert found == expected, f"the store answers\n{found}\nand the model\n{expected}"
        return expected

    async def _ask(self, side: Side, ask: Ask) -> Any:
        try:
            return await ask(side)
        except GangerError as error:
            return error.code

    @invariant()
    def the_two_stores_look_the_same(self) -> None:
        model, tested = (self._runner.run(side.learn()) for side in (self.model, self.tested))
        assert tested == model, f"the store has made {tested} tasks and the model {model}"
        self.seen, found = (self._runner.run(side.draw()) for side in (self.model, self.tested))
        for part, expected in self.seen.items():
            assert found[part] == expected, f"{part}:\nthe store has\n{found[part]}\nand the model\n{expected}"

    @property
    def tasks(self) -> int:
        return len(self.model.tasks)

    def pick_task(self, pick: int) -> int:
        return pick % self.tasks

    def has_tasks(self) -> bool:
        return self.tasks > 0

    def has_leases(self) -> bool:
        return bool(self.leases)

    @initialize(policy=POLICIES)
    def begin(self, policy: Policy) -> None:
        self.make_queue(policy, None)
        self.register("a", 20_000)
        self.register("b", 1_000)

    @precondition(lambda self: len(self.model.queues) < 4)
    @rule(policy=POLICIES, becomes=st.none() | PICK)
    def make_queue(self, policy: Policy, becomes: int | None) -> None:
        async def ask(side: Side) -> None:
            target = side.queues[becomes % len(side.queues)] if becomes is not None and side.queues else None
            change = QueueChange(name=f"q{len(side.queues)}", policy=policy._replace(becomes=target))
            made = (await side.store.configure(Configure(queue=change))).queue
            assert made is not None
            side.queues.append(made.id)

        self.both(ask)

    @rule(
        pick=PICK, policy=st.none() | POLICIES, pause=st.sampled_from([None, 0, 5_000]), delete=st.sampled_from(RARELY)
    )
    def change_queue(self, pick: int, policy: Policy | None, pause: int | None, delete: bool) -> None:
        until = None if pause is None else Wall(self.clock.wall() + pause if pause else 0)

        async def ask(side: Side) -> None:
            queue = side.queues[pick % len(side.queues)]
            change = QueueChange(queue, policy=policy, paused_until=until, delete=delete, drop=True)
            await side.store.configure(Configure(queue=change))

        self.both(ask)

    @rule(name=st.sampled_from(["a", "b", "c"]), lease=st.sampled_from(LEASES), token=st.sampled_from(["t", "t", "u"]))
    def register(self, name: str, lease: int, token: str = "t") -> None:
        said = Registration(name, token, slots=4, lease=lease, kinds=("command",) if name == "c" else None)

        async def ask(side: Side) -> int:
            node = (await side.store.configure(Configure(node=NodeChange(register=said)))).node
            assert node is not None
            if node.id not in side.nodes:
                side.nodes.append(node.id)
            return side.nodes.index(node.id)

        self.both(ask)

    @rule(pick=PICK, what=st.sampled_from(["beat", "beat", "drain", "leave"]), token=st.sampled_from(["t", "t", "u"]))
    def change_node(self, pick: int, what: str, token: str) -> None:
        async def ask(side: Side) -> list[int | None]:
            node = side.nodes[pick % len(side.nodes)]
            change = NodeChange(node, token, beat=what == "beat", drain=what == "drain", leave=what == "leave")
            kills = (await side.store.configure(Configure(node=change))).kills
            return [side.ordinal_of(task) for task in kills] if what == "beat" else []

        self.both(ask)

    @rule(drafts=st.lists(DRAFTS, min_size=1, max_size=4))
    def submit(self, drafts: list[Draft]) -> None:
        known = self.tasks

        async def ask(side: Side) -> tuple[list[int | None], list[int]]:
            tasks = tuple(self._new_task(side, known, drafts[:index], draft) for index, draft in enumerate(drafts))
            submitted = await side.store.submit(Submission(tasks))
            side.tasks += [task for task in dict.fromkeys(submitted.ids) if task not in set(side.tasks)]
            return [side.ordinal_of(task) for task in submitted.ids], submitted.existing

        self.both(ask)

    def _new_task(self, side: Side, known: int, before: list[Draft], draft: Draft) -> NewTask:
        """References go to tasks that are there, or to those before in the submission, so that there is no cycle."""
        slotless = draft.kind in SLOTLESS
        there = known + len(before)
        parents = {refer(side, known, pick % there): on for pick, on in draft.parents if there}
        groups = [task for task, seen in self.seen["tasks"].items() if seen["kind"] == Kind.GROUP]
        groups += [known + index for index, earlier in enumerate(before) if earlier.kind == Kind.GROUP]
        return NewTask(
            side.queues[draft.queue % len(side.queues)], draft.kind, b"spec", draft.priority,
            delay=0 if slotless else draft.delay,
            parents=tuple(Edge(parent, on) for parent, on in parents.items()),
            join=Join.ANY if draft.any_join and not slotless else Join.ALL,
            group=refer(side, known, groups[draft.group % len(groups)]) if draft.group is not None and groups else 0,
            key=draft.key, on_conflict=OnConflict.RETURN if draft.returns else OnConflict.REFUSE,
            limit_key=None if slotless else draft.limit_key,
            renewal=Renewal.LIVENESS if draft.ttr is None else Renewal.TOUCH, ttr=draft.ttr,
            open_group=draft.kind == Kind.GROUP and draft.open_group,
        )  # fmt: skip

    @rule(
        node=PICK, queues=st.lists(PICK, max_size=3), most=st.integers(1, 3), start=st.booleans(),
        names=st.lists(PICK, max_size=2),
    )  # fmt: skip
    def claim(self, node: int, queues: list[int], most: int, start: bool, names: list[int]) -> None:
        self._exchange((), (node, queues, most, start, names), all_or_nothing=False)

    @precondition(has_leases)
    @rule(
        pick=PICK, name=st.sampled_from(RULE_NAMES), off=st.sampled_from([0, 0, 0, 0, 1, -1]),
        said=st.fixed_dictionaries({
            "priority": st.sampled_from([None, 1]), "reason": st.sampled_from([None, "why"]),
            "result": st.sampled_from([None, b"r"]), "avoid": st.sampled_from([0, 0, 30_000]), "crashed": st.booleans(),
        }),
        then_claim=st.booleans(),
    )  # fmt: skip
    def settle(self, pick: int, name: str, off: int, said: dict[str, Any], then_claim: bool) -> None:
        task, fence = self.leases[pick % len(self.leases)]
        settled = self._move(task, name, max(0, fence + off), said)
        self._exchange((settled,), (pick, [0, 1, 2], 1, False, []) if then_claim else None, all_or_nothing=False)

    @precondition(has_tasks)
    @rule(
        moves=st.lists(st.tuples(PICK, st.sampled_from(OPERATOR_RULES)), min_size=1, max_size=4), branch=st.booleans(),
        whole=st.booleans(),
    )  # fmt: skip
    def operate(self, moves: list[tuple[int, str]], branch: bool, whole: bool) -> None:
        made = tuple(self._move(self.pick_task(pick), name, 0, {"branch": branch}) for pick, name in moves)
        self._exchange(made, None, all_or_nothing=whole)

    @precondition(has_leases)
    @rule(pick=PICK, rest=st.lists(PICK, min_size=1, max_size=4), name=st.sampled_from(["succeed", "fail"]))
    def settle_together(self, pick: int, rest: list[int], name: str) -> None:
        chosen = {self.leases[each % len(self.leases)] for each in [pick, *rest]}
        self._exchange(tuple(self._move(task, name, fence, {}) for task, fence in sorted(chosen)), None, False)

    def _move(self, task: int, name: str, fence: int, said: dict[str, Any]) -> Move:
        """A move of the task with that ordinal; each side puts its own id in its place."""
        due = self.clock.wall() + 10 if RULES[name].target == Status.DELAYED else None
        given = {**said, "due": due}
        if name not in ("conclude", "conclude_failed"):
            given.pop("branch", None)
        if not RULES[name].ends_lease:
            given["avoid"] = 0
        return move(TaskId(task), name, Fence(fence))._replace(**given)

    def _exchange(self, moves: Sequence[Move], claim: tuple[Any, ...] | None, all_or_nothing: bool) -> None:
        async def ask(side: Side) -> tuple[list[Any], list[Any]]:
            own = tuple(one._replace(task=side.task(one.task)) for one in moves)
            reply = await side.store.exchange(Exchange(own, self._claim(side, claim), all_or_nothing))
            await side.learn()
            named = claim is not None and claim[4]
            claimed = side.draw_claimed(reply.claimed)
            return sorted(reply.refused), sorted(claimed) if named else claimed

        reply = self.both(ask)
        if not isinstance(reply, str):
            self.leases += [(claimed[0], claimed[2]) for claimed in reply[1]]

    def _claim(self, side: Side, asked: tuple[Any, ...] | None) -> Claim | None:
        if asked is None:
            return None
        node, queues, most, start, names = asked
        ids = tuple(dict.fromkeys(side.task(self.pick_task(name)) for name in names)) if side.tasks else ()
        chosen = dict.fromkeys(side.queues[pick % len(side.queues)] for pick in queues)
        return Claim(side.nodes[node % len(side.nodes)], tuple(chosen), most, ids, start, 5_000)

    @precondition(has_leases)
    @rule(
        picks=st.lists(PICK, min_size=1, max_size=3), off=st.sampled_from([0, 0, 0, 1, -1]),
        kind=st.sampled_from(["touch", "progress", "datum", "unset", "chunk"]),
    )  # fmt: skip
    def write(self, picks: list[int], off: int, kind: str) -> None:
        async def ask(side: Side) -> list[tuple[int, str]]:
            leases = [self.leases[pick % len(self.leases)] for pick in picks]
            notes = tuple(write_note(side.task(task), Fence(max(0, fence + off)), kind) for task, fence in leases)
            return sorted(await side.store.write(notes))

        self.both(ask)

    @precondition(has_tasks)
    @rule(pick=PICK, other=PICK, kind=st.sampled_from(EDITS), on=st.sampled_from(list(On)))
    def edit(self, pick: int, other: int, kind: str, on: str) -> None:
        task, parent = self.pick_task(pick), self.pick_task(other)
        delayed = self.seen["tasks"].get(task, {}).get("status") == Status.DELAYED
        change = Change(priority=0, description="edited", due=self.clock.wall() if delayed else None)

        async def ask(side: Side) -> None:
            id_, above = side.task(task), side.task(parent)
            edits = {
                "change": Edit(id_, change=change),
                "kill": Edit(id_, kill=True),
                "remove": Edit(id_, remove=True),
                "remove below": Edit(id_, remove=True, descendants=True),
                "link": Edit(id_, link=(above, on)),
                "unlink": Edit(id_, unlink=above),
                "close": Edit(id_, close_group=True),
            }
            await side.store.edit(Edits((edits[kind],)))

        if kind != "close" or self.seen["tasks"].get(task, {}).get("kind") == Kind.GROUP:
            self.both(ask)

    @rule(what=st.sampled_from(["promote", "release", "lapse", "lapse"]))
    def tend(self, what: str) -> None:
        async def ask(side: Side) -> tuple[list[Any], int | None]:
            step = Tend(promote=what == "promote", release=what == "release", lapse=what == "lapse")
            tended = await side.store.tend(step)
            return side.draw_lapsed(tended.lapsed), tended.next_at

        self.both(ask)

    @rule(sure=st.sampled_from(RARELY))
    def prune(self, sure: bool) -> None:
        """Forget all that has ended. Nodes are forgotten when a lapse has found nothing of theirs any more."""
        if not sure:
            return

        async def ask(side: Side) -> None:
            await side.store.tend(Tend(lapse=True))
            while (await side.store.tend(Tend(prune_before=Wall(self.clock.wall() + 1)))).more:
                pass

        self.both(ask)

    @rule(milliseconds=st.sampled_from([1, 10, 999, 5_000, 20_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)

    @rule(milliseconds=st.sampled_from([-1_000, 1_000]))
    def jump(self, milliseconds: int) -> None:
        self.clock.jump_wall(milliseconds)


def refer(side: Side, known: int, ordinal: int) -> int:
    """The task with that ordinal, as a submission names it that begins behind `known` tasks."""
    return side.tasks[ordinal] if ordinal < known else -(ordinal - known + 1)
