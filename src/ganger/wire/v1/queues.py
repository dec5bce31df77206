"""Queues as clients of `/v1` see and change them."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ganger.core.ids import QueueId
from ganger.core.queue import Policy
from ganger.core.retry import Backoff, from_text, to_text

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
_Names = Annotated[list[str], msgspec.Meta(max_length=1_000)]
_Addresses = Annotated[list[str], msgspec.Meta(max_length=10)]
_PLAIN: Final = (
    "sort", "max_active", "max_per_node", "max_per_key", "on_lost", "batch_size", "plugin", "ephemeral",
)  # fmt: skip
_LISTS: Final = ("pin", "ignore", "webhooks")


class QueueChangeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of a queue: what is not given stays. A limit of null is no limit.

    `retries` is how often its tasks are tried again after a failure, unless they say otherwise. `becomes` is the name
    of the queue in which each result is a new task. `webhooks` are told of each task that has ended. `paused`: nothing
    of it begins, for `pause` milliseconds or until it is resumed.
    """

    sort: Literal["default", "fifo", "lifo"] | UnsetType = UNSET
    max_active: _Count | UnsetType | None = UNSET
    max_per_node: _Count | UnsetType | None = UNSET
    max_per_key: _Count | UnsetType | None = UNSET
    on_lost: Literal["retry", "orphan"] | UnsetType = UNSET
    retries: _Count | UnsetType = UNSET
    max_crashes: _Count | UnsetType = UNSET
    becomes: str | UnsetType | None = UNSET
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)] | UnsetType | None = UNSET
    plugin: str | UnsetType | None = UNSET
    pin: _Names | UnsetType = UNSET
    ignore: _Names | UnsetType = UNSET
    ephemeral: bool | UnsetType = UNSET
    webhooks: _Addresses | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    pause: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] | UnsetType = UNSET


class QueueIn(QueueChangeIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new queue."""

    name: str


class RetryTold(msgspec.Struct, frozen=True):
    """What follows a failure. 0 attempts or crashes: no limit. Lengths are milliseconds."""

    max_attempts: int
    max_crashes: int
    backoff: dict[str, Any]
    by_code: list[dict[str, Any]]
    sink: int
    hold_when_spent: bool


class QueueTold(msgspec.Struct, frozen=True):
    """A queue, its policy and its counts."""

    id: str
    name: str
    paused_until: int
    sort: str
    max_active: int | None
    max_per_node: int | None
    max_per_key: int | None
    on_lost: str
    retry: RetryTold
    becomes: str | None
    batch_size: int | None
    plugin: str | None
    pin: list[str]
    ignore: list[str]
    ephemeral: bool
    webhooks: list[str]
    total: int = 0
    todo: int = 0
    states: dict[str, int] = {}
    phases: dict[str, int] = {}


def change_policy(policy: Policy, said: QueueChangeIn, becomes: QueueId | None) -> Policy:
    """The policy with what is said changed. `becomes` is the queue that it names, or had."""
    given = {field: value for field in _PLAIN if (value := getattr(said, field)) is not UNSET}
    given |= {field: tuple(value) for field in _LISTS if (value := getattr(said, field)) is not UNSET}
    return policy._replace(**given, becomes=becomes, retry=_change_retry(policy.retry, said))


def _change_retry(text: str, said: QueueChangeIn) -> str:
    retry = from_text(text)
    if said.retries is not UNSET:
        retry = retry._replace(max_attempts=said.retries + 1)
    if said.max_crashes is not UNSET:
        retry = retry._replace(max_crashes=said.max_crashes)
    return to_text(retry)


def tell_policy(policy: Policy, becomes: str | None) -> dict[str, Any]:
    return policy._asdict() | {"retry": _tell_retry(policy.retry), "becomes": becomes}


def _tell_retry(text: str) -> dict[str, Any]:
    retry = from_text(text)
    codes = [{"code": code, "max_attempts": most, "backoff": _tell(backoff)} for code, most, backoff in retry.by_code]
    return retry._asdict() | {"backoff": _tell(retry.backoff), "by_code": codes}


def _tell(backoff: Backoff) -> dict[str, Any]:
    return backoff._asdict()
