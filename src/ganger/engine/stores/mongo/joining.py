"""Nodes: one registration at a time for each name, renewed by beats, ended by leaving or by silence.

A registration is the store's own. Beside it each name has a document in `nodes`, as the Disbatch protocol wants it, so
that strangers see who is there.
"""

import hmac

from ganger.core.clock import Moment, Wall
from ganger.core.errors import BadInput, NodeGone, NodeNotFound, NodeTaken
from ganger.core.event import Fact
from ganger.core.ids import NodeId
from ganger.core.node import Node, NodeState, Registration
from ganger.core.state import move
from ganger.engine.store import AS_IT_SAYS, EVENTS_TOPIC, NODES_TOPIC, Configured, NodeChange
from ganger.engine.stores.mongo import cascade, choices, sharing
from ganger.engine.stores.mongo.following import followed_among
from ganger.engine.stores.mongo.moving import apply
from ganger.engine.stores.mongo.neighbours import STRANGER_LIVES
from ganger.engine.stores.mongo.row import NodeRow, Shown
from ganger.engine.stores.mongo.step import NO_QUEUE, Step
from ganger.engine.stores.mongo.tables import IDENTITIES, NODES, SHOWN


async def configure_node(step: Step, change: NodeChange, operator: bool) -> Configured:
    """Change a node. An operator, whose act is written down, may do it without the node's token."""
    if change.register is not None:
        return Configured(node=await _register(step, change.register))
    row = await _find(step, change, operator)
    if not (change.beat or change.drain or change.resume or change.leave or change.limit is not None):
        raise BadInput("a change of a node registers it, beats for it, drains it, resumes, limits it or lets it leave")
    row = await _apply(step, row, change)
    held = await step.draft.select(choices.active_of_node(row.node.id))
    followed = await followed_among(step, [one.task.id for one in held])
    kills = tuple(one.task.id for one in held if one.task.kill)
    return Configured(node=row.node, kills=kills, followed=tuple(followed))


async def _apply(step: Step, row: NodeRow, change: NodeChange) -> NodeRow:
    if change.beat:
        row = await _renew(step, row, change)
    if change.drain:
        row = _set_state(step, row, NodeState.DRAINING)
    if change.resume:
        row = _set_state(step, row, NodeState.ACTIVE)
    if change.leave:
        row = _set_state(step, row, NodeState.LEFT)
        step.tell(Fact.NODE_LEFT, NO_QUEUE, row.node.id, subject=row.node.name)
    if change.limit is not None:
        row = await _limit(step, row, change.limit)
    return row


async def _limit(step: Step, row: NodeRow, limit: int) -> NodeRow:
    """Set the limit where strangers set it too: in the document of the name, which outlives the registration."""
    shown = await _show(step, row.node.name, row.said)
    as_it_says = row.said if shown.made else None
    shown = step.draft.put(SHOWN, shown._replace(slots=as_it_says if limit == AS_IT_SAYS else limit))
    # Whoever waits because of a limit looks again when anything is told.
    step.wake(EVENTS_TOPIC)
    return _put(step, row._replace(node=row.node._replace(slots=shown.effective)))


async def _register(step: Step, said: Registration) -> Node:
    await lose_silent(step, said.name)
    here = await step.draft.select(choices.here(said.name))
    if not here:
        return await _join(step, said)
    if not hmac.compare_digest(here[0].token, said.token):
        raise NodeTaken(f"another node is called {said.name} and lives; use another name, or let it leave first")
    shown = await _show(step, said.name, said.slots)
    node = await _describe(step, here[0].node.id, said, here[0].node.since)
    return _put(step, NodeRow(node._replace(slots=shown.effective), said.token, step.boot, said.lease, said.slots)).node


async def _join(step: Step, said: Registration) -> Node:
    shown = await _show(step, said.name, said.slots)
    await _orphan(step, said.name)
    node = (await _describe(step, NodeId(step.draw("node")), said, step.wall))._replace(slots=shown.effective)
    _put(step, NodeRow(node, said.token, step.boot, said.lease, said.slots))
    step.wake(NODES_TOPIC)
    step.tell(Fact.NODE_JOINED, NO_QUEUE, node.id, subject=node.name)
    return node


async def _orphan(step: Step, name: str) -> None:
    """End what a stranger of this name had in hand, as he would at his own next start."""
    for row in await sharing.held_by_stranger(step, name):
        await apply(step, move(row.task.id, "lose_to_orphan")._replace(reason=f"{name} was started anew"))
    await cascade.follow(step)


async def _show(step: Step, name: str, said: int | None) -> Shown:
    """Let strangers see the node, with the limit that somebody has set, if there is one.

    A living one of theirs under the same name is not put aside.
    """
    shown = await step.draft.get(SHOWN, name)
    if shown is None:
        face = step.face(step.draw("file"))
        return step.draft.put(SHOWN, Shown(face, name, step.wall, said, said=said))
    if not shown.ours and step.wall - shown.seen < STRANGER_LIVES:
        raise NodeTaken(f"a Disbatch node is called {name} and lives: stop it, or use another name")
    # A limit that only repeats what the node said of itself follows what it says now.
    slots = said if shown.made and shown.limit is None else shown.slots
    return step.draft.put(SHOWN, shown._replace(seen=step.wall, slots=slots, ours=True, said=said))


async def _describe(step: Step, node: NodeId, said: Registration, since: Wall) -> Node:
    return Node(
        id=node,
        identity=await _identify(step, said.name),
        name=said.name,
        state=str(NodeState.ACTIVE),
        until=Moment(step.now + said.lease),
        lease=said.lease,
        slots=said.slots,
        queues=said.queues,
        kinds=said.kinds,
        labels=said.labels,
        since=since,
        seen=step.wall,
    )


async def _identify(step: Step, name: str) -> int:
    """The number of a name: the same for every registration under it."""
    known = await step.draft.get(IDENTITIES, name)
    if known is None:
        known = step.draft.put(IDENTITIES, (name, step.draw("identity")))
    return known[1]


async def _find(step: Step, change: NodeChange, operator: bool) -> NodeRow:
    row = await step.node(change.id)
    if row is None or not step.is_live(row):
        raise NodeGone(f"the registration {change.id} has ended, and its leases with it; register anew", node=change.id)
    if not operator and not hmac.compare_digest(row.token, change.token):
        raise NodeNotFound(f"the registration {change.id} belongs to another process", node=change.id)
    return row


async def _renew(step: Step, row: NodeRow, change: NodeChange) -> NodeRow:
    term = row.node.lease if change.lease is None else change.lease
    vitals = change.vitals or row.node.vitals
    shown = await _show(step, row.node.name, row.said)
    node = row.node._replace(until=Moment(step.now + term), seen=step.wall, vitals=vitals, slots=shown.effective)
    return _put(step, row._replace(node=node, term=term))


def _set_state(step: Step, row: NodeRow, state: NodeState) -> NodeRow:
    step.wake(NODES_TOPIC)
    return _put(step, row._replace(node=row.node._replace(state=str(state))))


def _put(step: Step, row: NodeRow) -> NodeRow:
    return step.draft.put(NODES, row)


async def lose_silent(step: Step, name: str | None = None) -> int:
    """Mark nodes (of that name) whose lease has ended as lost; returns how many."""
    silent = [row for row in await step.draft.select(choices.here(name)) if not step.is_live(row)]
    for row in silent:
        lose(step, row)
    return len(silent)


def lose(step: Step, row: NodeRow) -> None:
    _set_state(step, row, NodeState.LOST)
    step.tell(Fact.NODE_LOST, NO_QUEUE, row.node.id, subject=row.node.name)
