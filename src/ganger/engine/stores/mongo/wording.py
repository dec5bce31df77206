"""The tables of the protocol in the words of a dialect."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from ganger.core.queue import Policy
from ganger.databases.mongo import Doc, Wording
from ganger.engine.stores.mongo import codec
from ganger.engine.stores.mongo.dialect import (
    CMD_EXIT,
    Dialect,
    queue_to_later,
    read_queue,
    read_task,
    task_to_later,
)
from ganger.engine.stores.mongo.odd import read_limit
from ganger.engine.stores.mongo.row import ODD, QueueRow, Row, Shown
from ganger.engine.stores.mongo.tables import QUEUES, SHOWN, TASKS

_WITHIN: Final = "ganger.policy"


def word(dialect: Dialect) -> Wording:
    """The tables that are written otherwise than the text of the protocol says."""
    if dialect is Dialect.PLAIN:
        return {}
    tasks = replace(TASKS, decode=partial(decode_task, dialect), encode=_task_to)
    queues = replace(QUEUES, decode=partial(decode_queue, dialect), encode=_queue_to)
    shown = replace(SHOWN, encode=_shown_to)
    return {table.name: table for table in (tasks, queues, shown)}


def decode_task(dialect: Dialect, document: Doc) -> Row:
    row = codec.task_from(read_task(dialect, document))
    if dialect is Dialect.PLAIN or not isinstance(row.theirs.get(CMD_EXIT), int):
        return row
    theirs = dict(row.theirs)
    return row._replace(exit=theirs.pop(CMD_EXIT), theirs=theirs)


def decode_queue(dialect: Dialect, document: Doc) -> QueueRow:
    told, limit = read_queue(dialect, document)
    row = codec.queue_from(told)
    if dialect is Dialect.PLAIN:
        return row
    policy = row.queue.policy
    try:
        policy = policy._replace(max_active=read_limit(limit))
    except ValueError:
        policy = Policy(plugin=ODD)
    return row._replace(queue=row.queue._replace(policy=policy))


def _task_to(row: Row) -> Doc:
    told = task_to_later(codec.task_to(row))
    return told if row.exit is None else {**told, CMD_EXIT: row.exit}


def _queue_to(row: QueueRow) -> Doc:
    """The limit over all nodes is the protocol's, so the one on each node is kept where that was."""
    policy = row.queue.policy
    told = queue_to_later(codec.queue_to(row), policy.max_active)
    within: dict[str, Any] = {**told[_WITHIN], "max_per_node": policy.max_per_node}
    del within["max_active"]
    return {**told, _WITHIN: within}


def _shown_to(shown: Shown) -> Doc:
    return {name: value for name, value in codec.shown_to(shown).items() if name != "queues"}
