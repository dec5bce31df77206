"""Rows as values: what a step needs to know of a task, a queue, a node."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Node, Vitals
from ganger.core.queue import Policy, Queue


class Row(NamedTuple):
    """A task as moves and notes see it, with what its lease hangs on: its own end, and its node's."""

    id: int
    queue: int
    lane: int
    status: int
    fence: int
    holder: int | None
    until: int | None
    term: int | None
    kids: int
    grp: int | None
    limit_key: str | None
    waits: int
    kill: bool
    touch: bool
    ttr: int | None
    identity: int
    node_until: int | None
    node_term: int | None
    here: bool


class Known(NamedTuple):
    """A node, and the length that its lease was last given."""

    node: Node
    term: int


def queue_from(row: Sequence[Any]) -> Queue:
    number, name, policy, paused = row
    return Queue(QueueId(number), name, msgspec.json.decode(policy, type=Policy), Wall(paused))


def policy_text(policy: Policy) -> str:
    return msgspec.json.encode(policy).decode()


def known_from(row: Sequence[Any]) -> Known:
    number, identity, name, state, until, lease, slots, queues, kinds, labels, since, seen, vitals, term = row
    node = Node(
        NodeId(number), identity, name, state, Moment(until), lease, slots, _names(queues), _names(kinds),
        tuple(labels), Wall(since), Wall(seen),
        None if vitals is None else msgspec.json.decode(vitals, type=Vitals),
    )  # fmt: skip
    return Known(node, term)


def _names(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows as the columns that `unnest` takes; as many, also where there is no row."""
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(width)]
