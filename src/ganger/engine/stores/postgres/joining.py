"""How nodes register, beat, drain, resume and leave."""

import hmac
from typing import Any

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import BadInput, NodeGone, NodeNotFound, NodeTaken
from ganger.core.event import Fact
from ganger.core.ids import TaskId
from ganger.core.node import Node, NodeState, Registration
from ganger.engine.store import AS_IT_SAYS, EVENTS_TOPIC, NODES_TOPIC, Configure, Configured, NodeChange
from ganger.engine.stores.postgres.following import followed_of
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.queueing import change_queue
from ganger.engine.stores.postgres.rows import Known, known_from
from ganger.engine.stores.postgres.step import Step


def is_beat(request: Configure) -> bool:
    return request.node is not None and request.node.beat


async def configure(step: Step, request: Configure) -> Configured:
    done = Configured()
    if request.queue is not None:
        done = Configured(queue=await change_queue(step, request.queue))
    elif request.node is not None:
        done = await _change_node(step, request.node, operator=request.act is not None)
    await step.act(request.act)
    await step.finish()
    return done


async def _change_node(step: Step, change: NodeChange, operator: bool) -> Configured:
    if change.register is not None:
        return Configured(node=await _register(step, change.register))
    node = await _known(step, change, operator)
    if change.beat:
        return await _beat(step, node, change)
    if change.drain:
        return Configured(node=await _turn(step, node, NodeState.DRAINING, Fact.NODE_LEFT))
    if change.resume:
        return Configured(node=await _turn(step, node, NodeState.ACTIVE, Fact.NODE_JOINED))
    if change.leave:
        return Configured(node=await _turn(step, node, NodeState.LEFT, Fact.NODE_LEFT))
    if change.limit is not None:
        return Configured(node=await _limit(step, node, change.limit))
    raise BadInput("a change of a node says what: register, beat, drain, resume, limit or leave")


async def _known(step: Step, change: NodeChange, operator: bool) -> Node:
    """The registration, if it lives and the caller may speak for it."""
    known = step.sight.node
    if known is None or not step.is_live(known):
        raise NodeGone(f"the registration {change.id} has ended, and with it its leases; register anew", node=change.id)
    token = await step.one(Q.node_token, change.id)
    if not operator and not hmac.compare_digest(str(token), change.token):
        raise NodeNotFound(f"registration {change.id} belongs to another process", node=change.id)
    return known.node


async def _register(step: Step, said: Registration) -> Node:
    step.run_alone()
    step.session.wake(NODES_TOPIC)
    identity = await _identity(step, said.name)
    for known in [known for known in await step.here() if known.node.identity == identity]:
        token = await step.one(Q.node_token, known.node.id)
        if not step.is_live(known):
            await lose(step, known.node)
        elif hmac.compare_digest(str(token), said.token):
            return await _again(step, known.node, said)
        else:
            raise NodeTaken(
                f"a node called {said.name!r} is here already; give this one another name, or wait until that one ends",
                node=known.node.id,
            )
    return await _join(step, identity, said)


async def _identity(step: Step, name: str) -> int:
    known = await step.one(Q.identity_get, name)
    return int(known if known is not None else await step.one(Q.identity_put, name))


async def _join(step: Step, identity: int, said: Registration) -> Node:
    number = await step.one(Q.node_insert, identity, said.token, step.now + said.lease, *_said(said), step.wall)
    step.tell_about(Fact.NODE_JOINED, 0, said.name)
    return (await _read(step, number)).node


async def _again(step: Step, node: Node, said: Registration) -> Node:
    _stir(step)
    await step.run(Q.node_update, step.now + said.lease, *_said(said), step.wall, node.id)
    return (await _read(step, node.id)).node


def _said(said: Registration) -> tuple[Any, ...]:
    return said.lease, said.slots, said.queues, said.kinds, said.labels


async def _read(step: Step, number: int) -> Known:
    return known_from((await step.run(Q.node_one, number))[0])


async def _beat(step: Step, node: Node, change: NodeChange) -> Configured:
    term = change.lease or node.lease
    until = Moment(step.now + term)
    told = None if change.vitals is None else msgspec.json.encode(change.vitals).decode()
    await step.run(Q.node_beat, until, term, step.wall, told, node.id)
    beaten = node._replace(until=until, seen=step.wall, vitals=change.vitals or node.vitals)
    kills = tuple(TaskId(row[0]) for row in await step.run(Q.node_kills, node.id))
    return Configured(node=beaten, kills=kills, followed=await followed_of(step, node.id))


async def _limit(step: Step, node: Node, limit: int) -> Node:
    await step.run(Q.identity_limit, None if limit == AS_IT_SAYS else limit, node.identity)
    # Whoever waits because of a limit looks again when anything is told.
    step.session.wake(EVENTS_TOPIC)
    _stir(step)
    return (await _read(step, node.id)).node


async def _turn(step: Step, node: Node, state: NodeState, fact: Fact) -> Node:
    turned = node._replace(state=state.value)
    await step.run(Q.node_state, state.value, step.wall, node.id)
    if not turned.here:
        step.tell_about(fact, 0, node.name)
    else:
        _stir(step)
    step.session.wake(NODES_TOPIC)
    return turned


def _stir(step: Step) -> None:
    """Of what has no event whoever missed the wake-up learns by the edition of the shelf."""
    step.change_shelf()


async def lose(step: Step, node: Node) -> None:
    """Its lease has ended: it is not here any more, and what it held lapses."""
    await _turn(step, node, NodeState.LOST, Fact.NODE_LOST)
