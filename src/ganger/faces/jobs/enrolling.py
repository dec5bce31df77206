"""How a worker is let in, and becomes a node of the store."""

import re
from contextlib import suppress
from typing import Final, NamedTuple

from ganger.core.errors import NodeTaken, NotAllowed, TooManyRequests
from ganger.core.node import Node, Registration
from ganger.core.queue import Queue
from ganger.core.task import Kind
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from ganger.faces.http.grants import Grant, Need
from ganger.faces.jobs.backend import JobsBackend
from ganger.faces.jobs.workers import NODE_PREFIX

_MOST_NAMESAKES: Final = 1_000
_LONGEST_TOKEN: Final = 200
_NAMESAKE: Final = re.compile(r" #\d+$", re.ASCII)


def find_grant(backend: JobsBackend, job_type: str | None, token: object) -> Grant | None:
    """The grant of a token that allows to work on jobs of this type; None if it does not, or if none is asked for."""
    if not backend.plan.authenticates or not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
        return None
    grant = backend.keeper.find(token)
    try:
        if grant is not None and grant.lease is None:
            grant.demand(Need.WORK, backend.plan.types.name_queue(job_type))
            return grant
    except NotAllowed as error:
        backend.telemetry.event("worker_not_allowed", error=error.message)
    return None


class Entry(NamedTuple):
    """What a worker is registered with. `lease` is in milliseconds."""

    identity: str
    secret: str
    lease: int
    slots: int = 1


class Admitted(NamedTuple):
    """A worker that was let in: its number in the list, the node that it is for the engine, and what it claims."""

    number: int
    identity: str
    node: Node
    token: str
    grant: Grant | None
    claim: Claim


def read_identity(node_name: str) -> str:
    """The id of the worker that was given this name as a node."""
    return _NAMESAKE.sub("", node_name.removeprefix(NODE_PREFIX))


async def register_worker(engine: Engine, queue: Queue, entry: Entry) -> Node:
    """Register it for one queue. Several programs of one machine may have the same id: each is a node of its own."""
    for number in range(1, _MOST_NAMESAKES + 1):
        name = f"{NODE_PREFIX}{entry.identity}" if number == 1 else f"{NODE_PREFIX}{entry.identity} #{number}"
        with suppress(NodeTaken):
            kinds = (Kind.PAYLOAD,)
            said = Registration(name, entry.secret, entry.slots, entry.lease, (queue.name,), kinds)
            return await engine.nodes.register(said)
    raise TooManyRequests(f"{_MOST_NAMESAKES} workers have the id {entry.identity!r} already: give each its own")
