"""What is said of a queue: the words of Disbatch 4 (`plugin`, `threads`) and those of its protocol (`constructor`,
`maxthreads`), which are limits over all nodes and on each.
"""

from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from ganger.core.errors import BadInput
from ganger.core.queue import Counts, OnLost, Policy, Queue, Sort
from ganger.core.state import LEASED
from ganger.wire.disbatch.shapes import NodeQueue, QueueReport
from ganger.wire.disbatch.words import OWN, read_threads

KNOWN: Final = frozenset({"name", "plugin", "constructor", "threads", "maxthreads", "sort"})
MADE: Final = Policy(on_lost=OnLost.ORPHAN)
"""The rule of the protocol: what was being worked on when its node went is orphaned, and not run again."""

_FIRST: Final = -(1 << 63)
_LAST: Final = 1 << 63
_SORT: Final = 'sort must be "fifo", "lifo", or "default"'


class Wish(NamedTuple):
    """A queue as it shall be. A name of None stays."""

    name: str | None
    policy: Policy


def read_new(said: Mapping[str, Any], plugins: Container[str]) -> Wish:
    """A queue to be made."""
    params = _rename(said)
    if not params.get("name") or not params.get("plugin"):
        raise BadInput("name and plugin required")
    _refuse_unknown(said, "Invalid param")
    name, plugin = params["name"], params["plugin"]
    if not isinstance(name, str):
        raise BadInput("name must be a string")
    _check_plugin(plugin, plugins, "Unknown plugin")
    return Wish(name, _apply(MADE, params))


def read_change(said: Mapping[str, Any], plugins: Container[str], policy: Policy) -> Wish:
    """A queue to be changed; what is not named stays."""
    if not said:
        raise BadInput("no params")
    _refuse_unknown(said, "unknown param")
    params = _rename(said)
    if "plugin" in params:
        _check_plugin(params["plugin"], plugins, "unknown plugin")
    name = params.get("name")
    if "name" in params and not (isinstance(name, str) and name):
        raise BadInput("name must be a string")
    return Wish(name, _apply(policy, params))


def _rename(said: Mapping[str, Any]) -> dict[str, Any]:
    params = dict(said)
    if "constructor" in params:
        params.setdefault("plugin", params.pop("constructor"))
    return params


def _check_plugin(plugin: Any, plugins: Container[str], complaint: str) -> None:
    if not isinstance(plugin, str) or plugin not in plugins:
        raise BadInput(complaint, plugin=str(plugin)[:200])


def _refuse_unknown(said: Mapping[str, Any], complaint: str) -> None:
    if unknown := sorted(set(said) - KNOWN):
        raise BadInput(complaint, param=unknown[0][:200])


def _apply(policy: Policy, params: Mapping[str, Any]) -> Policy:
    if "plugin" in params:
        policy = policy._replace(plugin=params["plugin"])
    if "threads" in params:
        policy = policy._replace(max_active=read_threads("threads", params["threads"]))
    if "maxthreads" in params:
        policy = policy._replace(max_per_node=read_threads("maxthreads", params["maxthreads"]))
    if "sort" in params:
        policy = policy._replace(sort=_read_sort(params["sort"]))
    return policy


def _read_sort(value: Any) -> str:
    if value is None or value == "":
        return Sort.DEFAULT
    if not isinstance(value, str) or value not in set(Sort):
        raise BadInput(_SORT, field="sort")
    return value


def count(counts: Counts | None, low: int, high: int) -> int:
    """How many tasks have a status between these."""
    return 0 if counts is None else sum(n for code, n in counts.by_status.items() if low <= code <= high)


def report(face: str, queue: Queue, counts: Counts | None) -> QueueReport:
    """A queue as the routes of queues tell it. What waits and what was cancelled is `queued`, as it always was."""
    policy = queue.policy
    return QueueReport(
        face, policy.plugin or OWN, policy.plugin or OWN, queue.name, policy.max_active,
        policy.max_per_node, policy.sort, count(counts, _FIRST, -2), count(counts, -1, 0), count(counts, 1, _LAST),
    )  # fmt: skip


def report_in_node(face: str, queue: Queue, counts: Counts | None) -> NodeQueue:
    """A queue as the document of a node tells it."""
    doing = 0 if counts is None else sum(counts.by_status.get(code, 0) for code in LEASED)
    todo, total = (0, 0) if counts is None else (counts.todo, counts.total)
    return NodeQueue(
        queue.name, face, queue.policy.plugin or OWN, queue.policy.max_per_node, todo - doing,
        doing, max(0, total - todo),
    )  # fmt: skip
