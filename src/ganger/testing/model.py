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
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.lease import Renewal
from ganger.core.node import NodeState, Registration
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
    CLAIMS,
    DISTURBANCES,
    DRAFTS,
    EDITS,
    NOTES,
    OFF,
    OPERATOR_RULES,
    PICK,
    RULE_NAMES,
    SAID,
    Asked,
    Draft,
    policies,
    write_note,
)
from ganger.testing.picture import Side, differ

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

    def both(self, ask: Ask, any_error: bool = False) -> Any:
        """Ask both sides the same; the answers, or the codes of the errors, must be equal.

        `any_error`: the request may be wrong in several ways, and which of them is found first is the store's own.
        """
        expected, found = (self._runner.run(self._ask(side, ask, any_error)) for side in (self.model, self.tested))
        assert found == expected, f"the store answers\n{found}\nand the model\n{expected}"
        return expected

    async def _ask(self, side: Side, ask: Ask, any_error: bool) -> Any:
        try:
            return await ask(side)
        except GangerError as error:
            return "refused" if any_error else error.code

    @invariant()
    def the_two_stores_look_the_same(self) -> None:
        model, tested = (self._runner.run(side.learn()) for side in (self.model, self.tested))
        assert tested == model, f"the store has made {tested} tasks and the model {model}"
        self.seen, found = (self._runner.run(side.draw()) for side in (self.model, self.tested))
        assert found == self.seen, "\n".join(differ(self.seen, found))

    @property
    def tasks(self) -> int:
        return len(self.model.tasks)

    def has_tasks(self) -> bool:
        return self.tasks > 0

    def has_leases(self) -> bool:
        return bool(self.leases)

    def pick_lease(self, pick: int) -> tuple[int, int]:
        """Mostly one of the newest leases, now and then one that is long gone."""
        near = min(len(self.leases), 4 if pick % 4 else 1_000)
        return self.leases[-1 - pick % near]

    @initialize(first=policies(), second=policies())
    def begin(self, first: Policy, second: Policy) -> None:
        self.make_queue(first, None)
        self.make_queue(second, 0)
        self.register("a", 600_000, "t")
        self.register("b", 3_000, "t")

    @rule(drafts=st.lists(DRAFTS, min_size=1, max_size=4))
    def submit(self, drafts: list[Draft]) -> None:
        known = self.tasks

        async def ask(side: Side) -> tuple[list[int | None], list[int]]:
            tasks = tuple(self._new_task(side, known, drafts[:index], draft) for index, draft in enumerate(drafts))
            submitted = await side.store.submit(Submission(tasks))
            side.tasks += [task for task in dict.fromkeys(submitted.ids) if task not in set(side.tasks)]
            return [side.ordinal_of(task) for task in submitted.ids], submitted.existing

        self.both(ask, any_error=True)

    def _new_task(self, side: Side, known: int, before: list[Draft], draft: Draft) -> NewTask:
        """References go to tasks that are there, or to those before in the submission, so that there is no cycle."""
        slotless = draft.kind in SLOTLESS
        groups = [task for task, seen in self.seen["tasks"].items() if seen["kind"] == Kind.GROUP]
        groups += [known + index for index, earlier in enumerate(before) if earlier.kind == Kind.GROUP]
        group = refer(side, known, groups[-1 - draft.group % len(groups)]) if draft.group and groups else 0
        # A member that waits for its group is refused above if both are of one submission.
        there = known if group < 0 else known + len(before)
        return NewTask(
            side.queues[draft.queue % len(side.queues)], draft.kind, b"spec", draft.priority,
            delay=0 if slotless else draft.delay,
            parents=self._edges(side, known, there, draft),
            join=Join.ANY if draft.any_join and not slotless else Join.ALL,
            group=group,
            key=draft.key, on_conflict=OnConflict.RETURN if draft.returns else OnConflict.REFUSE,
            limit_key=None if slotless else draft.limit_key,
            renewal=Renewal.LIVENESS if draft.ttr is None else Renewal.TOUCH, ttr=draft.ttr,
            open_group=draft.kind == Kind.GROUP and draft.open_group,
        )  # fmt: skip

    def _edges(self, side: Side, known: int, there: int, draft: Draft) -> tuple[Edge, ...]:
        """Edges to some of the newest tasks, one for each parent."""
        picked = {there - 1 - pick % min(there, 6): on for pick, on in draft.parents} if there else {}
        return tuple(Edge(refer(side, known, ordinal), on) for ordinal, on in picked.items())

    @rule(asked=CLAIMS)
    def claim(self, asked: Asked) -> None:
        self._exchange((), asked)

    @precondition(has_leases)
    @rule(pick=PICK, name=st.sampled_from(RULE_NAMES), off=OFF, said=SAID, then=st.none() | CLAIMS)
    def settle(self, pick: int, name: str, off: int, said: dict[str, Any], then: Asked | None) -> None:
        task, fence = self.pick_lease(pick)
        self._exchange((self._move(task, name, max(0, fence + off), said),), then)

    @precondition(has_leases)
    @rule(pick=PICK, name=st.sampled_from(["succeed", "retry"]), off=OFF, kind=st.sampled_from(NOTES))
    def settle_with_last_words(self, pick: int, name: str, off: int, kind: str) -> None:
        task, fence = self.pick_lease(pick)
        written = Fence(max(0, fence + off))

        async def ask(side: Side) -> list[tuple[int, str]]:
            own = side.tasks[task]
            exchange = Exchange((move(own, name, written),), notes=(write_note(own, written, kind),))
            refused = (await side.store.exchange(exchange)).refused
            await side.learn()
            return refused

        self.both(ask)

    @precondition(has_leases)
    @rule(picks=st.lists(PICK, min_size=2, max_size=5), name=st.sampled_from(["succeed", "succeed", "fail"]))
    def settle_together(self, picks: list[int], name: str) -> None:
        chosen = sorted({self.pick_lease(pick) for pick in picks})
        self._exchange([self._move(task, name, fence, {}) for task, fence in chosen], None)

    @precondition(has_tasks)
    @rule(
        moves=st.lists(st.tuples(PICK, st.sampled_from(OPERATOR_RULES)), min_size=1, max_size=4),
        branch=st.booleans(),
        whole=st.booleans(),
    )
    def operate(self, moves: list[tuple[int, str]], branch: bool, whole: bool) -> None:
        made = [self._move(pick % self.tasks, name, 0, {"branch": branch}) for pick, name in moves]
        self._exchange(made, None, all_or_nothing=whole)

    def _move(self, task: int, name: str, fence: int, said: dict[str, Any]) -> Move:
        """A move of the task with that ordinal; each side puts its own id in its place."""
        given = dict(said) if name not in ("start", "succeed") else {"result": said.get("result")}
        given["due"] = self.clock.wall() + 10 if RULES[name].target == Status.DELAYED else None
        given["avoid"] = said.get("avoid", 0) if RULES[name].ends_lease else 0
        given["branch"] = said.get("branch", True) or name != "conclude"
        return move(TaskId(task), name, Fence(fence))._replace(**given)

    def _exchange(self, moves: Sequence[Move], asked: Asked | None, all_or_nothing: bool = False) -> None:
        async def ask(side: Side) -> tuple[list[Any], list[Any]]:
            own = tuple(one._replace(task=side.tasks[one.task]) for one in moves)
            claim = None if asked is None else self._claim(side, asked)
            reply = await side.store.exchange(Exchange(own, claim, all_or_nothing))
            await side.learn()
            claimed = side.draw_claimed(reply.claimed)
            return sorted(reply.refused), sorted(claimed) if asked is not None and asked.names else claimed

        reply = self.both(ask)
        if not isinstance(reply, str):
            self.leases += [(claimed[0], claimed[2]) for claimed in reply[1]]

    def _claim(self, side: Side, asked: Asked) -> Claim:
        ids = dict.fromkeys(side.tasks[name % self.tasks] for name in asked.names) if self.tasks else {}
        queues = dict.fromkeys(side.queues[pick % len(side.queues)] for pick in asked.queues)
        return Claim(self._pick_node(side, asked.node), tuple(queues), asked.most, tuple(ids), asked.start, 5_000)

    def _pick_node(self, side: Side, pick: int) -> NodeId:
        """Mostly a node that is here."""
        here = [node for node, seen in zip(side.nodes, self.seen["nodes"], strict=False) if seen[1] == NodeState.ACTIVE]
        nodes = here if here and pick % 8 else side.nodes
        return nodes[pick % len(nodes)]

    @precondition(has_leases)
    @rule(picks=st.lists(PICK, min_size=1, max_size=3), off=OFF, kind=st.sampled_from(NOTES))
    def write(self, picks: list[int], off: int, kind: str) -> None:
        leases = [self.pick_lease(pick) for pick in picks]

        async def ask(side: Side) -> list[tuple[int, str]]:
            notes = [write_note(side.tasks[task], Fence(max(0, fence + off)), kind) for task, fence in leases]
            return sorted(await side.store.write(tuple(notes)))

        self.both(ask)

    @precondition(has_tasks)
    @rule(pick=PICK, other=PICK, kind=st.sampled_from(EDITS), on=st.sampled_from(list(On)))
    def edit(self, pick: int, other: int, kind: str, on: str) -> None:
        ordinal, parent = pick % self.tasks, other % self.tasks
        seen = self.seen["tasks"].get(ordinal, {})
        due = self.clock.wall() if seen.get("status") == Status.DELAYED else None

        async def ask(side: Side) -> None:
            task, above = side.tasks[ordinal], side.tasks[parent]
            edits = {
                "change": Edit(task, change=Change(priority=0, description="edited", due=due)),
                "kill": Edit(task, kill=True),
                "remove": Edit(task, remove=True),
                "remove below": Edit(task, remove=True, descendants=True),
                "link": Edit(task, link=(above, on)),
                "unlink": Edit(task, unlink=above),
                "close": Edit(task, close_group=True),
            }
            await side.store.edit(Edits((edits[kind],)))

        if kind != "close" or seen.get("kind") == Kind.GROUP:
            self.both(ask, any_error=True)

    @rule(what=st.sampled_from(["promote", "release", "lapse", "lapse"]))
    def tend(self, what: str) -> None:
        async def ask(side: Side) -> tuple[list[Any], int | None]:
            step = Tend(promote=what == "promote", release=what == "release", lapse=what == "lapse")
            tended = await side.store.tend(step)
            # What has lapsed is to be moved first: until then the next moment means nothing.
            return side.draw_lapsed(tended.lapsed), None if tended.lapsed else tended.next_at

        self.both(ask)

    @rule(milliseconds=st.sampled_from([1, 10, 900, 2_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)

    @rule(what=DISTURBANCES)
    def disturb(self, what: tuple[str, dict[str, Any]]) -> None:
        name, drawn = what
        getattr(self, name)(**drawn)

    def make_queue(self, policy: Policy, becomes: int | None) -> None:
        async def ask(side: Side) -> None:
            target = None if becomes is None else side.queues[becomes % len(side.queues)]
            change = QueueChange(name=f"q{len(side.queues)}", policy=policy._replace(becomes=target))
            made = (await side.store.configure(Configure(queue=change))).queue
            assert made is not None
            side.queues.append(made.id)

        self.both(ask)

    def change_queue(self, pick: int, policy: Policy | None, pause: int | None) -> None:
        until = None if pause is None else Wall(self.clock.wall() + pause if pause else 0)

        async def ask(side: Side) -> None:
            queue = side.queues[pick % len(side.queues)]
            await side.store.configure(Configure(queue=QueueChange(queue, policy=policy, paused_until=until)))

        self.both(ask)

    def delete_queue(self, pick: int, drop: bool) -> None:
        """One of the queues that were made last: the first two stay."""

        async def ask(side: Side) -> None:
            queue = side.queues[2:][pick % len(side.queues[2:])]
            await side.store.configure(Configure(queue=QueueChange(queue, delete=True, drop=drop)))

        if len(self.model.queues) > 2:
            self.both(ask)

    def register(self, name: str, lease: int, token: str) -> None:
        said = Registration(name, token, slots=4, lease=lease, kinds=("command",) if name == "c" else None)

        async def ask(side: Side) -> int:
            node = (await side.store.configure(Configure(node=NodeChange(register=said)))).node
            assert node is not None
            side.nodes += [] if node.id in side.nodes else [node.id]
            return side.nodes.index(node.id)

        self.both(ask)

    def change_node(self, pick: int, what: str, token: str) -> None:
        async def ask(side: Side) -> list[int | None]:
            node = self._pick_node(side, pick)
            said: dict[str, Any] = {what: True}
            change = NodeChange(node, token, **said)
            kills = (await side.store.configure(Configure(node=change))).kills
            return [side.ordinal_of(task) for task in kills] if what == "beat" else []

        self.both(ask)

    def prune(self) -> None:
        """Forget all that has ended. A node is forgotten when a lapse has found nothing of its any more."""
        after_all = Wall(self.clock.wall() + 1_000_000_000)

        async def ask(side: Side) -> None:
            await side.store.tend(Tend(lapse=True))
            while (await side.store.tend(Tend(prune_before=after_all))).more:
                pass

        self.both(ask)

    def jump(self, milliseconds: int) -> None:
        self.clock.jump_wall(milliseconds)


def refer(side: Side, known: int, ordinal: int) -> int:
    """The task with that ordinal, as a submission names it that begins behind `known` tasks."""
    return side.tasks[ordinal] if ordinal < known else -(ordinal - known + 1)
