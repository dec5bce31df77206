"""How nodes register, beat, drain, resume and leave."""

import hmac
import json

from ganger.core.clock import Moment
from ganger.core.errors import BadInput, NodeGone, NodeNotFound, NodeTaken
from ganger.core.event import Fact
from ganger.core.ids import TaskId
from ganger.core.node import Node, NodeState, Registration
from ganger.databases.sqlite import Session
from ganger.engine.store import AS_IT_SAYS, EVENTS_TOPIC, NODES_TOPIC, Configure, Configured, NodeChange
from ganger.engine.stores.sqlite.following import followed_of
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.queueing import change_queue
from ganger.engine.stores.sqlite.rows import node_from
from ganger.engine.stores.sqlite.step import Step


def configure(session: Session, request: Configure) -> Configured:
    step = Step(session)
    done = Configured()
    if request.queue is not None:
        done = Configured(queue=change_queue(step, request.queue))
    elif request.node is not None:
        done = _change_node(step, request.node, operator=request.act is not None)
    step.act(request.act)
    step.finish()
    return done


def _change_node(step: Step, change: NodeChange, operator: bool) -> Configured:
    if change.register is not None:
        return Configured(node=_register(step, change.register))
    node = _known(step, change, operator)
    if change.beat:
        return _beat(step, node, change)
    if change.drain:
        return Configured(node=_turn(step, node, NodeState.DRAINING, Fact.NODE_LEFT))
    if change.resume:
        return Configured(node=_turn(step, node, NodeState.ACTIVE, Fact.NODE_JOINED))
    if change.leave:
        return Configured(node=_turn(step, node, NodeState.LEFT, Fact.NODE_LEFT))
    if change.limit is not None:
        return Configured(node=_limit(step, node, change.limit))
    raise BadInput("a change of a node says what: register, beat, drain, resume, limit or leave")


def _known(step: Step, change: NodeChange, operator: bool) -> Node:
    """The registration, if it lives and the caller may speak for it."""
    node = step.node(change.id)
    if node is None or not node.live(step.now):
        raise NodeGone(f"the registration {change.id} has ended, and with it its leases; register anew", node=change.id)
    ((token,),) = step.run(Q.node_token, (node.id,))
    if not operator and not hmac.compare_digest(str(token), change.token):
        raise NodeNotFound(f"registration {change.id} belongs to another process", node=change.id)
    return node


def _register(step: Step, said: Registration) -> Node:
    step.session.wake(NODES_TOPIC)
    identity = _identity(step, said.name)
    for known in [node for node in step.shelf.nodes.values() if node.identity == identity]:
        ((token,),) = step.run(Q.node_token, (known.id,))
        if not known.live(step.now):
            lose(step, known)
        elif hmac.compare_digest(str(token), said.token):
            return _again(step, known, said)
        else:
            raise NodeTaken(
                f"a node called {said.name!r} is here already; give this one another name, or wait until that one ends",
                node=known.id,
            )
    return _join(step, identity, said)


def _identity(step: Step, name: str) -> int:
    known = list(step.run(Q.identity_get, (name,))) or list(step.run(Q.identity_put, (name,)))
    return int(known[0][0])


def _join(step: Step, identity: int, said: Registration) -> Node:
    row = (identity, said.token, step.now + said.lease, *_said(said), step.wall, step.wall)
    ((number,),) = step.run(Q.node_insert, row)
    node = _shelve(step, number)
    step.tell_about(Fact.NODE_JOINED, 0, said.name)
    return node


def _again(step: Step, node: Node, said: Registration) -> Node:
    step.run(Q.node_update, (step.now + said.lease, *_said(said), step.wall, node.id))
    return _shelve(step, node.id)


def _said(said: Registration) -> tuple[object, ...]:
    queues = None if said.queues is None else json.dumps(said.queues)
    kinds = None if said.kinds is None else json.dumps(said.kinds)
    return said.lease, said.slots, queues, kinds, json.dumps(said.labels)


def _shelve(step: Step, number: int) -> Node:
    node = node_from(next(iter(step.run(Q.node_one, (number,)))))
    step.shelf.put_node(step.session, node, number)
    return node


def _beat(step: Step, node: Node, change: NodeChange) -> Configured:
    until = Moment(step.now + (change.lease or node.lease))
    told = None if change.vitals is None else json.dumps(change.vitals)
    step.run(Q.node_beat, (until, step.wall, told, node.id))
    beaten = node._replace(until=until, seen=step.wall, vitals=change.vitals or node.vitals)
    step.shelf.put_node(step.session, beaten, node.id)
    kills = tuple(TaskId(row[0]) for row in step.run(Q.node_kills, (node.id,)))
    return Configured(node=beaten, kills=kills, followed=followed_of(step, node.id))


def _limit(step: Step, node: Node, limit: int) -> Node:
    step.run(Q.identity_limit, (None if limit == AS_IT_SAYS else limit, node.identity))
    # Whoever waits because of a limit looks again when anything is told.
    step.session.wake(EVENTS_TOPIC)
    return _shelve(step, node.id)


def _turn(step: Step, node: Node, state: NodeState, fact: Fact) -> Node:
    turned = node._replace(state=state.value)
    step.run(Q.node_state, (state.value, step.wall, node.id))
    step.shelf.put_node(step.session, turned if turned.here else None, node.id)
    if not turned.here:
        step.tell_about(fact, 0, node.name)
    step.session.wake(NODES_TOPIC)
    return turned


def lose(step: Step, node: Node) -> None:
    """Its lease has ended: it is not here any more, and what it held lapses."""
    _turn(step, node, NodeState.LOST, Fact.NODE_LOST)
