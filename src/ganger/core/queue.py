"""A queue: a named stream of tasks and the policy under which they are handed out."""

from enum import StrEnum
from typing import NamedTuple

from ganger.core import names
from ganger.core.clock import Wall
from ganger.core.errors import BadNumber, BadPolicy
from ganger.core.ids import QueueId
from ganger.core.retry import NEVER, Retry, check, to_text

FOREVER = Wall(1 << 62)
"""As the end of a pause: until somebody resumes the queue."""


MOST_WEBHOOKS = 10
LONGEST_WEBHOOK = 2_000


class Sort(StrEnum):
    """The order among tasks of equal priority: by id, or the newest first."""

    FIFO = "fifo"
    LIFO = "lifo"
    DEFAULT = "default"


class OnLost(StrEnum):
    """What becomes of a task whose lease was lost: it runs again, or it ends orphaned."""

    RETRY = "retry"
    ORPHAN = "orphan"


class Policy(NamedTuple):
    """How a queue hands out its tasks. A limit of None is no limit; 0 is none at all.

    `max_active` counts over all nodes, `max_per_node` on each, `max_per_key` for each concurrency key. `pin` names the
    only nodes that may take, `ignore` those that may not; pin wins. `becomes` is the queue in which each result is a
    new task. `batch_size` None means that tasks get no batch. `ephemeral` queues vanish when empty. `webhooks` are
    addresses that are told of each task that has ended.
    """

    sort: str = Sort.DEFAULT
    max_active: int | None = None
    max_per_node: int | None = None
    max_per_key: int | None = None
    on_lost: str = OnLost.RETRY
    retry: str = to_text(NEVER)
    becomes: QueueId | None = None
    batch_size: int | None = None
    plugin: str | None = None
    pin: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ephemeral: bool = False
    webhooks: tuple[str, ...] = ()

    @property
    def is_limited(self) -> bool:
        """Does a claim depend on how many of its tasks are leased?"""
        return self.max_active is not None or self.max_per_node is not None


class Queue(NamedTuple):
    id: QueueId
    name: str
    policy: Policy
    paused_until: Wall = Wall(0)

    def paused(self, wall: Wall) -> bool:
        return wall < self.paused_until

    def pause_ends(self, wall: Wall) -> Wall | None:
        """When a pause that has an end is over, if there is one now."""
        return self.paused_until if wall < self.paused_until < FOREVER else None

    def takes_node(self, name: str) -> bool:
        return name in self.policy.pin if self.policy.pin else name not in self.policy.ignore


class Counts(NamedTuple):
    """How many tasks of a queue have each status, and what it has seen since it was made."""

    queue: QueueId
    by_status: dict[int, int]
    total: int

    @property
    def todo(self) -> int:
        return sum(n for status, n in self.by_status.items() if status <= 0)


def check_policy(policy: Policy) -> Policy:
    """The policy, if it makes sense; else an error that names the field."""
    for field in ("max_active", "max_per_node", "max_per_key"):
        limit = getattr(policy, field)
        if limit is not None and limit < 0:
            raise BadNumber(f"{field} is {limit}; give 0 or more, or None for no limit", field=field)
    if policy.batch_size is not None and policy.batch_size < 1:
        raise BadNumber(
            f"batch_size is {policy.batch_size}; give 1 or more, or None for no batches", field="batch_size"
        )
    if policy.sort not in set(Sort):
        raise BadPolicy(f"sort {policy.sort!r} is unknown; use fifo, lifo or default", field="sort")
    if policy.on_lost not in set(OnLost):
        raise BadPolicy(f"on_lost {policy.on_lost!r} is unknown; use retry or orphan", field="on_lost")
    for name in (*policy.pin, *policy.ignore):
        names.check("node", name)
    _check_webhooks(policy.webhooks)
    return policy


def _check_webhooks(addresses: tuple[str, ...]) -> None:
    if len(addresses) > MOST_WEBHOOKS or len(set(addresses)) != len(addresses):
        raise BadPolicy(f"a queue has at most {MOST_WEBHOOKS} webhooks, each once", field="webhooks")
    for address in addresses:
        if not address.startswith(("https://", "http://")):
            raise BadPolicy(f"the webhook {address!r:.80} is no address: write https://host/path", field="webhooks")
        names.check_text("webhook", address, LONGEST_WEBHOOK)


def with_retry(policy: Policy, retry: Retry) -> Policy:
    return policy._replace(retry=to_text(check(retry)))
