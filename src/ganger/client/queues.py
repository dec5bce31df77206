"""What a program says of a queue: how many of its tasks run at once, how failures are retried, who may take from it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from ganger.client.options import refuse_strangers, retry_text
from ganger.core.retry import Retry


class QueueWishes(TypedDict, total=False):
    """The policy of a queue as keywords; what is not given stays as it is. A limit of None is none; 0 lets none run.

    `max_active` counts over all nodes, `max_per_node` on each, `max_per_key` for each `limit_key`. `retries`: how often
    a failed task is tried again, or a whole policy. `sort`: `fifo`, `lifo` or `default`. `on_lost`: what becomes of a
    task whose node died, `retry` or `orphan`. `becomes`: the queue in which each result is a new task. `batch_size`:
    tasks are numbered in batches of so many. `plugin`: what runs its tasks. `pin`: the only nodes that may take from
    it, `ignore`: those that may not. `webhooks`: addresses that are told of each task that has ended.
    """

    max_active: int | None
    max_per_node: int | None
    max_per_key: int | None
    retries: int | Retry
    sort: str
    on_lost: str
    becomes: str | None
    batch_size: int | None
    plugin: str | None
    pin: Sequence[str]
    ignore: Sequence[str]
    webhooks: Sequence[str]


_LISTS: Final = frozenset({"pin", "ignore", "webhooks"})


def read_wishes(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy that are to change; `becomes` is the name of a queue still."""
    refuse_strangers(wishes, QueueWishes)
    changes = {name: tuple(value) if name in _LISTS else value for name, value in wishes.items() if name != "retries"}
    if "retries" in wishes:
        changes["retry"] = retry_text(wishes["retries"])
    return changes
