"""Rows of queues and nodes as values."""

import json
from typing import NamedTuple

import msgspec

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Node, Vitals
from ganger.core.queue import Policy, Queue


class Shelved(NamedTuple):
    """A queue with what only the store needs of it."""

    queue: Queue
    batch: int
    fill: int


def shelved_from(row: tuple[object, ...]) -> Shelved:
    number, name, policy, paused, batch, fill = msgspec.convert(row[:6], tuple[int, str, str, int, int, int])
    queue = Queue(QueueId(number), name, msgspec.json.decode(policy, type=Policy), Wall(paused))
    return Shelved(queue, batch, fill)


class _NodeRow(NamedTuple):
    id: int
    identity: int
    name: str
    state: str
    until: int
    lease: int
    slots: int | None
    queues: str | None
    kinds: str | None
    labels: str
    since: int
    seen: int
    vitals: str | None


def node_from(row: tuple[object, ...]) -> Node:
    r = msgspec.convert(row, _NodeRow)
    queues, kinds = _names(r.queues), _names(r.kinds)
    return Node(
        NodeId(r.id), r.identity, r.name, r.state, Moment(r.until), r.lease, r.slots,
        queues, kinds, tuple(json.loads(r.labels)), Wall(r.since), Wall(r.seen),
        None if r.vitals is None else msgspec.json.decode(r.vitals, type=Vitals),
    )  # fmt: skip


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))
