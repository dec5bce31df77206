"""Nodes: whoever takes tasks registers, beats, drains and leaves."""

from collections.abc import Sequence
from typing import NamedTuple

from ganger.core import names
from ganger.core.audit import Act
from ganger.core.errors import BadInput, NodeGone, NodeNotFound
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import SHORTEST_LEASE, Node, Registration, Vitals
from ganger.core.state import LEASED, Status
from ganger.core.task import Task
from ganger.engine.audit import act
from ganger.engine.checks import LATEST, check_delay, check_kind, check_labels, check_whole, tidy
from ganger.engine.limits import Limits
from ganger.engine.store import AS_IT_SAYS, Configure, NodeChange, Query, Store, Strangers

_LONGEST_TOKEN = 200
_PAGE = 1_000


class Beaten(NamedTuple):
    """The node as the store knows it now, and those of its tasks that are to be killed, or are followed by somebody."""

    node: Node
    kills: tuple[TaskId, ...]
    followed: tuple[TaskId, ...] = ()


class InHand(NamedTuple):
    """How many tasks a node runs, and how many it has claimed and not begun."""

    running: int = 0
    claimed: int = 0

    @property
    def total(self) -> int:
        return self.running + self.claimed


class Nodes:
    """The nodes of one store; those that registered here are remembered."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._here: dict[NodeId, Node] = {}

    def peek(self, node: NodeId) -> Node | None:
        """A node that registered here, as it was last seen."""
        return self._here.get(node)

    async def all(self) -> list[Node]:
        """Every node that is here, or was lost or left a while ago. Uses: directory."""
        return (await self._store.directory()).nodes

    async def in_hand(self, nodes: Sequence[Node]) -> dict[NodeId, InHand]:
        """What each of these has in hand now: by its leases, not by what it told with its last beat. Uses: find."""
        return {node.id: await self._count(node.id) for node in nodes}

    async def _count(self, node: NodeId) -> InHand:
        query: Query | None = Query(statuses=tuple(map(int, LEASED)), holder=node, most=_PAGE)
        statuses: list[int] = []
        while query is not None:
            page = await self._store.find(query)
            statuses += [task.status for task in page.tasks]
            query = None if page.next is None else query._replace(after=page.next)
        return InHand(statuses.count(Status.RUNNING), statuses.count(Status.CLAIMED))

    async def strangers(self) -> list[Node]:
        """Nodes of other makes that work on the same store, where it may have any: see `Strangers`."""
        return await self._store.strangers() if isinstance(self._store, Strangers) else []

    async def name_holder(self, task: Task) -> str | None:
        """The name of the node that has a task in hand, or had it last, where a stranger may be that."""
        return await self._store.holder_of(task.id) if isinstance(self._store, Strangers) else None

    async def register(self, registration: Registration) -> Node:
        """Join, or join again with the same token; NodeTaken while another of this name lives. Uses: configure."""
        _check(registration, self._limits)
        return (await self._change(NodeChange(register=registration))).node

    async def beat(self, node: NodeId, token: str, lease: int | None = None, vitals: Vitals | None = None) -> Beaten:
        """Renew every lease that lives by the node's liveness; NodeGone if they are lost already. Uses: configure."""
        if lease is not None:
            check_delay("lease", lease, SHORTEST_LEASE)
        told = None if vitals is None else vitals._replace(trouble=tidy(vitals.trouble, self._limits.reason))
        return await self._change(NodeChange(node, token, beat=True, lease=lease, vitals=told))

    async def drain(self, name: str, *, by: str) -> Node:
        """Have a node take nothing more: it gives back what it has not begun, finishes the rest, and leaves.

        Until it has left it can be resumed. NodeNotFound if no such node is here. Uses: directory, configure.
        """
        return await self._operate(name, by, "node.drain", NodeChange(drain=True))

    async def resume(self, name: str, *, by: str) -> Node:
        """Have a node that drains take tasks again; NodeNotFound if it has left. Uses: directory, configure."""
        return await self._operate(name, by, "node.resume", NodeChange(resume=True))

    async def limit(self, name: str, slots: int | None, *, by: str) -> Node:
        """Have a node hold so many tasks at once, now and whenever it comes back; None is as many as it says itself.

        0: it takes nothing more, and finishes what it has. NodeNotFound if no such node is here. Uses: directory,
        configure.
        """
        if slots is not None:
            check_whole("slots", slots, 0, LATEST)
        change = NodeChange(limit=AS_IT_SAYS if slots is None else slots)
        try:
            return await self._operate(name, by, "node.limit", change, slots=slots)
        except NodeNotFound:
            told = act(by, "node.limit", name=name, slots=slots)
            limited = await self._limit_stranger(name, slots, told)
            if limited is None:
                raise
            return limited

    async def _limit_stranger(self, name: str, slots: int | None, told: Act) -> Node | None:
        if not isinstance(self._store, Strangers):
            return None
        return await self._store.limit_stranger(name, slots, told)

    async def _operate(self, name: str, by: str, action: str, change: NodeChange, **said: int | None) -> Node:
        """Change a node in an operator's name. One that goes while it is looked for is not here."""
        here = [node for node in await self.all() if node.here and node.name == name]
        try:
            told = act(by, action, name=names.check("node", name), **said)
            done = [await self._store.configure(Configure(node=change._replace(id=node.id), act=told)) for node in here]
        except NodeGone:
            done = []
        if not done or (node := done[0].node) is None:
            raise NodeNotFound(f"no node called {name!r:.80} is here; see `ganger nodes`", name=name)
        return node

    async def leave(self, node: NodeId, token: str) -> None:
        """Go in order: what it still holds goes back and is not blamed. Uses: configure."""
        await self._change(NodeChange(node, token, leave=True))

    async def _change(self, change: NodeChange) -> Beaten:
        try:
            reply = await self._store.configure(Configure(node=change))
        except NodeGone:
            self._here.pop(change.id, None)
            raise
        if reply.node is None:
            raise NodeGone(f"node {change.id} is gone; register it anew", node=change.id)
        self._remember(reply.node)
        return Beaten(reply.node, reply.kills, reply.followed)

    def _remember(self, node: Node) -> None:
        if node.here:
            self._here[node.id] = node
        else:
            self._here.pop(node.id, None)


def _check(registration: Registration, limits: Limits) -> None:
    names.check("node", registration.name)
    # Those of other alphabets cannot be compared in constant time.
    if not (0 < len(registration.token) <= _LONGEST_TOKEN and registration.token.isascii()):
        raise BadInput(f"a node's token has 1 to {_LONGEST_TOKEN} characters of ASCII", field="token")
    if registration.slots is not None:
        check_whole("slots", registration.slots, 0, LATEST)
    check_delay("lease", registration.lease, SHORTEST_LEASE)
    _check_lists(registration, limits)


def _check_lists(registration: Registration, limits: Limits) -> None:
    kinds: Sequence[str] = registration.kinds or ()
    for kind in kinds:
        check_kind(kind)
    check_labels("label", registration.labels, limits.labels)
    for queue in registration.queues or ():
        names.check("queue", queue)
