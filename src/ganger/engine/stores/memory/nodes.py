"""Nodes: one registration at a time for each name, renewed by beats, ended by leaving or by silence."""

import hmac

from ganger.core.clock import Moment, Wall
from ganger.core.errors import BadInput, NodeGone, NodeNotFound, NodeTaken
from ganger.core.event import Fact
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import Node, NodeState, Registration
from ganger.engine.store import AS_IT_SAYS, EVENTS_TOPIC, NODES_TOPIC, Configured, NodeChange
from ganger.engine.stores.memory.follows import followed_of
from ganger.engine.stores.memory.row import NodeRow
from ganger.engine.stores.memory.step import NO_QUEUE, Step


def configure_node(step: Step, change: NodeChange, operator: bool) -> Configured:
    """Change a node. An operator, whose act is written down, may do it without the node's token."""
    if change.register is not None:
        return Configured(node=_register(step, change.register))
    row = _find(step, change, operator)
    if change.beat:
        row = _renew(step, row, change)
    if change.drain:
        row = _set_state(step, row, NodeState.DRAINING)
    if change.resume:
        row = _set_state(step, row, NodeState.ACTIVE)
    if change.leave:
        row = _set_state(step, row, NodeState.LEFT)
        step.tell(Fact.NODE_LEFT, NO_QUEUE, row.node.id, subject=row.node.name)
    if change.limit is not None:
        row = _limit(step, row, change.limit)
    if not (change.beat or change.drain or change.resume or change.leave or change.limit is not None):
        raise BadInput("a change of a node registers it, beats for it, drains it, resumes, limits it or lets it leave")
    return Configured(node=row.node, kills=_kills(step, row.node.id), followed=followed_of(step, row.node.id))


def _register(step: Step, said: Registration) -> Node:
    lose_silent(step, said.name)
    here = [row for row in step.tables.nodes.values() if row.node.here and row.node.name == said.name]
    if not here:
        return _join(step, said)
    if not hmac.compare_digest(here[0].token, said.token):
        raise NodeTaken(f"another node is called {said.name} and lives; use another name, or let it leave first")
    node = _describe(step, here[0].node.id, said, here[0].node.since)
    return _put(step, NodeRow(node, said.token, step.boot, said.slots)).node


def _join(step: Step, said: Registration) -> Node:
    node = _describe(step, NodeId(step.tables.draw("node")), said, step.wall)
    _put(step, NodeRow(node, said.token, step.boot, said.slots))
    step.wake(NODES_TOPIC)
    step.tell(Fact.NODE_JOINED, NO_QUEUE, node.id, subject=node.name)
    return node


def _describe(step: Step, node: NodeId, said: Registration, since: Wall) -> Node:
    return Node(
        id=node,
        identity=_identify(step, said.name),
        name=said.name,
        state=NodeState.ACTIVE,
        until=Moment(step.now + said.lease),
        lease=said.lease,
        slots=_slots(step, said.name, said.slots),
        queues=said.queues,
        kinds=said.kinds,
        labels=said.labels,
        since=since,
        seen=step.wall,
    )


def _identify(step: Step, name: str) -> int:
    """The number of a name: the same for every registration under it."""
    known = step.tables.identities.get(name)
    if known is not None:
        return known
    step.tables.identities.put(name, step.tables.draw("identity"))
    return step.tables.identities[name]


def _find(step: Step, change: NodeChange, operator: bool) -> NodeRow:
    row = step.tables.nodes.get(change.id)
    if row is None or not row.live(step.now, step.boot):
        raise NodeGone(f"the registration {change.id} has ended, and its leases with it; register anew", node=change.id)
    if not operator and not hmac.compare_digest(row.token, change.token):
        raise NodeNotFound(f"the registration {change.id} belongs to another process", node=change.id)
    return row


def _renew(step: Step, row: NodeRow, change: NodeChange) -> NodeRow:
    until = Moment(step.now + (row.node.lease if change.lease is None else change.lease))
    vitals = change.vitals or row.node.vitals
    return _put(step, row._replace(node=row.node._replace(until=until, seen=step.wall, vitals=vitals)))


def _set_state(step: Step, row: NodeRow, state: NodeState) -> NodeRow:
    step.wake(NODES_TOPIC)
    return _put(step, row._replace(node=row.node._replace(state=state)))


def _limit(step: Step, row: NodeRow, limit: int) -> NodeRow:
    name = row.node.name
    if limit != AS_IT_SAYS:
        step.tables.limits.put(name, limit)
    elif name in step.tables.limits:
        step.tables.limits.drop(name)
    # Whoever waits because of a limit looks again when anything is told.
    step.wake(EVENTS_TOPIC)
    return _put(step, row._replace(node=row.node._replace(slots=_slots(step, name, row.said))))


def _slots(step: Step, name: str, said: int | None) -> int | None:
    """How many tasks a node holds at once: what somebody has set, else what it says."""
    limit = step.tables.limits.get(name)
    return said if limit is None else limit


def _put(step: Step, row: NodeRow) -> NodeRow:
    step.tables.nodes.put(row.node.id, row)
    return row


def _kills(step: Step, node: NodeId) -> tuple[TaskId, ...]:
    held = step.tables.active_of_node.bucket(node)
    return tuple(task for task in held if step.tables.rows[task].task.kill)


def lose_silent(step: Step, name: str | None = None) -> int:
    """Mark nodes (of that name) whose lease has ended as lost; returns how many."""
    named = [row for row in step.tables.nodes.values() if name is None or row.node.name == name]
    silent = [row for row in named if row.node.here and not row.live(step.now, step.boot)]
    for row in silent:
        _set_state(step, row, NodeState.LOST)
        step.tell(Fact.NODE_LOST, NO_QUEUE, row.node.id, subject=row.node.name)
    return len(silent)
