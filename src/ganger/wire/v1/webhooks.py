"""What is said about webhooks: the task that delivers one, and the message that is delivered."""

import hashlib
import hmac
from typing import Any, Final

import msgspec

from ganger.core.graph import Edge, On
from ganger.core.ids import QueueId, TaskId
from ganger.core.retry import Exponential, Retry, to_text
from ganger.core.task import PLUGIN, NewTask, OnConflict, Task
from ganger.wire.v1.words import name_phase, name_state

QUEUE: Final = "webhooks"
KIND: Final = f"{PLUGIN}webhook"
MARK: Final = "webhook-mark"
"""The value of a task by which its webhook knows it again."""

KEY: Final = "webhook-key"
"""The secret with which messages are signed."""

_SHOWN: Final = 32
_RETRY: Final = to_text(Retry(8, Exponential(40_000, 3.0, 3_600_000, 0.25)))
"""Not sooner than half a minute: for so long a task that failed waits for another holder than the one it failed on."""


class WebhookSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where to, and the task that it is about: the parent with that mark, or, for a webhook of its queue, its id."""

    url: str
    mark: str = ""
    task: int = 0


def make_hook(parent: int, of: NewTask, url: str, mark: str, queue: QueueId) -> NewTask:
    """The task that delivers when its parent has ended. If the parent may be given back by its key, so may this one."""
    spec = msgspec.json.encode(WebhookSpec(url, mark))
    again = of.key is not None and of.on_conflict != OnConflict.REFUSE
    key = f"webhook:{hashlib.sha256(of.key.encode()).hexdigest()}" if again and of.key is not None else None
    return NewTask(
        queue, KIND, spec, parents=(Edge(parent, On.FINISHED),), key=key, on_conflict=OnConflict.RETURN,
        description="tell a webhook", retry=_RETRY,
    )  # fmt: skip


def make_queue_hook(task: TaskId, url: str, queue: QueueId) -> NewTask:
    """The task that tells an address of a queue that a task has ended; made twice it is the same one."""
    spec = msgspec.json.encode(WebhookSpec(url, task=task))
    key = f"webhook:{task}:{hashlib.sha256(url.encode()).hexdigest()[:_SHOWN]}"
    return NewTask(
        queue, KIND, spec, key=key, on_conflict=OnConflict.RETURN, description="tell a webhook", retry=_RETRY
    )


def make_message(task: Task, queue: str, delivery: int) -> bytes:
    """What a receiver is told about a task that has ended."""
    told: dict[str, Any] = {
        "delivery": str(delivery),
        "id": str(task.id),
        "state": name_state(task.status),
        "phase": name_phase(task.status),
        "code": task.status if task.status > 0 else None,
        "queue": queue,
        "key": task.key,
        "description": task.description,
        "reason": task.reason,
        "attempts": task.attempts,
        "created": task.created,
        "started": task.started,
        "ended": task.ended,
    }
    return msgspec.json.encode({name: value for name, value in told.items() if value is not None})


def sign(key: str, timestamp: int, body: bytes) -> str:
    """The header `Ganger-Signature`: HMAC-SHA256 over the time, a dot, and the body."""
    return f"v1={hmac.new(key.encode(), b'%d.' % timestamp + body, hashlib.sha256).hexdigest()}"
