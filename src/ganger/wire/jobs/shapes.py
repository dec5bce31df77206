"""What the jobs door answers, as types."""

from typing import Final

import msgspec

PARAMETERS: Final[dict[str, str]] = {
    "after": "Only jobs behind this place: the `next` of the answer before.",
    "batch": "Only jobs of this batch.",
    "description": "Up to 128 characters about the job.",
    "key": "Only the job with this key.",
    "limit": "At most so many on a page, 1 to 1000; 100 unless given.",
    "newest": "Whether the newest come first.",
    "priority": "immediate or batch.",
    "status": "Only jobs of these statuses: pending, running, complete, failed, with commas between them.",
    "upload": "The name of an upload that is the result, in place of a body.",
    "urls": "Whether a large payload may be answered with an address from which it is got.",
    "type": "Only jobs of this type.",
    "wait": "Wait for the end of the job, at most so many seconds (300).",
    "{id}": "The id of a worker, or the name of its node.",
    "{job_type}": "The type of the job.",
    "{key}": "The key of a job, or its GUID.",
    "{lease}": "What came with the job as X-Job-Lease.",
    "{number}": "The number of a batch.",
}
"""What each parameter means, and each open part of a path."""

OF_SUBMITS: Final[dict[str, str]] = {"key": "A name of your own for the job, unique while the job exists."}
OF_WORK: Final[dict[str, str]] = {
    "id": "The identifier of the worker, which stays the same over its restarts.",
    "wait": "Wait for a job, at most so many seconds (45).",
}


class Job(msgspec.Struct, frozen=True):
    """A job. Times are UTC, `size` is that of its payload. `worker` has it, or has solved it.

    `reason` says why it failed last; a complete job has none. `source` is the job whose result it is, `successor` the
    one that its own result became.
    """

    id: str
    key: str
    type: str | None
    status: str
    priority: str
    description: str | None
    batch: int | None
    size: int
    submitted: str
    started: str | None
    ended: str | None
    percent: float | None
    info: str | None
    reason: str | None
    worker: str | None
    tries: int
    crashes: int
    source: str | None = None
    successor: str | None = None


class Jobs(msgspec.Struct, frozen=True):
    """A page of jobs. Only a `next` of null is the end: a page may be short. `counts` are those of all jobs."""

    jobs: list[Job]
    next: str | None
    counts: dict[str, int]


class Batch(msgspec.Struct, frozen=True):
    """The jobs of a batch. `stable`: no job will be added to it any more."""

    batch: int
    type: str | None
    stable: bool
    jobs: list[Job]
    next: str | None


class Worker(msgspec.Struct, frozen=True):
    """A worker that is here, or was a while ago; `last_state` is how it was when it went. The counts are its id's."""

    id: str
    name: str
    type: str | None
    node: str
    address: str
    state: str
    connected: str
    seen: str
    disconnected: str | None
    job: str | None
    succeeded: int
    failed: int
    last_state: str | None = None


class UploadTold(msgspec.Struct, frozen=True):
    """Where a result may be sent: PUT it to `url`, then name the `upload`. Null where there is no such place."""

    upload: str | None
    url: str | None
    seconds: float | None
