"""Job types: what the settings say, and the queues that they are in the store.

A type is a queue. Results that become jobs of another type do so by the queue's policy, in the step that settles them.
Without types there is one queue, made when the first job or worker comes. With types all queues are made at the start,
and a store that says otherwise is refused: jobs would go where nobody expects them, or wait for ever.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ganger.core import names
from ganger.core.errors import BadInput, Conflict, NotFound
from ganger.core.queue import Policy, Queue, with_retry
from ganger.core.retry import Exponential, Retry
from ganger.engine.engine import Engine

UNTYPED: Final = "jobs"
PREFIX: Final = "jobs."
_BY: Final = "jobs door"
_BACKOFF: Final = Exponential(1_000, 2.0, 60_000, 0.0)
"""How long a job that failed rests: whoever is alone does not get it back at once, and each time later."""


class JobPolicy(NamedTuple):
    """How jobs are kept: the size of a batch, and how often a job is tried."""

    batch_size: int = 1_000
    tries: int = 3


class JobTypes(NamedTuple):
    """The types by name, each with the one that its results become jobs of. None at all: jobs have no type."""

    becomes: Mapping[str, str | None]

    def name_queue(self, job_type: str | None) -> str:
        """The queue of a type; NotFound if there is no such type."""
        if not self.becomes and job_type is None:
            return UNTYPED
        if job_type not in self.becomes:
            known = ", ".join(self.becomes)
            raise NotFound(
                f"there is no job type {job_type!r:.80}; there are {known or 'none'}", type=str(job_type)[:200]
            )
        return f"{PREFIX}{job_type}"

    def read_queue(self, queue: str) -> str | None:
        """The type whose queue it is."""
        return None if queue == UNTYPED else queue.removeprefix(PREFIX)

    def has_queue(self, queue: str) -> bool:
        """Is it a queue of jobs?"""
        if not self.becomes:
            return queue == UNTYPED
        return queue.startswith(PREFIX) and queue.removeprefix(PREFIX) in self.becomes


def read_types(text: str) -> JobTypes:
    """`frame > film, film`: two types, and results of frame become jobs of film. BadInput if they make no sense."""
    becomes: dict[str, str | None] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, arrow, target = (part.strip() for part in item.partition(">"))
        if name in becomes:
            raise BadInput(f"the job type {name!r:.80} is named twice", field="job_types")
        becomes[_check_name(name)] = _check_name(target) if arrow else None
    for name, following in becomes.items():
        _check_way(becomes, name, following)
    return JobTypes(becomes)


def _check_name(name: str) -> str:
    if "/" in name:
        raise BadInput(f"the job type {name!r:.80} has a slash, and stands in addresses", field="job_types")
    return names.check("job type", name)


def _check_way(becomes: Mapping[str, str | None], name: str, following: str | None) -> None:
    seen = [name]
    while following is not None:
        if following not in becomes:
            raise BadInput(f"results of {seen[-1]!r} become jobs of {following!r}, which is no type", field="job_types")
        if following in seen:
            raise BadInput(f"results go round in a circle: {' > '.join([*seen, following])}", field="job_types")
        seen.append(following)
        following = becomes[following]


async def open_types(engine: Engine, types: JobTypes, policy: JobPolicy) -> None:
    """Make the queues of the types. Conflict if the store has jobs that these types leave behind, or other ways."""
    await _refuse_left_behind(engine, types)
    if not types.becomes and any(queue.name == UNTYPED for queue in await engine.queues.all()):
        await _open(engine, UNTYPED, _make_policy(policy))
    # What is named last in a chain is made first: a queue names the one that its results go to.
    for name in _order(types.becomes):
        target = types.becomes[name]
        becomes = None if target is None else (await engine.queues.named(types.name_queue(target))).id
        await _open(engine, types.name_queue(name), _make_policy(policy)._replace(becomes=becomes))


def _order(becomes: Mapping[str, str | None]) -> Sequence[str]:
    def depth(name: str) -> int:
        target = becomes[name]
        return 0 if target is None else 1 + depth(target)

    return sorted(becomes, key=depth)


async def _refuse_left_behind(engine: Engine, types: JobTypes) -> None:
    counts, _ = await engine.counts()
    open_jobs = {each.queue: each.todo for each in counts}
    for queue in await engine.queues.all():
        is_ours = queue.name == UNTYPED or queue.name.startswith(PREFIX)
        if is_ours and not types.has_queue(queue.name) and open_jobs.get(queue.id, 0):
            raise Conflict(
                f"the store has {open_jobs[queue.id]} unfinished jobs in the queue {queue.name!r}, which the setting "
                "job_types leaves without workers: finish or cancel them, or name that type",
                queue=queue.name,
            )


async def _open(engine: Engine, name: str, policy: Policy) -> Queue:
    queue = await engine.queues.ensure(name, policy, by=_BY)
    if queue.policy.becomes != policy.becomes:
        raise Conflict(
            f"the queue {name!r} has another place for its results than the setting job_types says: "
            "change the setting, or remove the queue when it is empty",
            queue=name,
        )
    wanted = queue.policy._replace(batch_size=policy.batch_size, retry=policy.retry)
    return queue if wanted == queue.policy else await engine.queues.change(queue.id, wanted, by=_BY)


async def ensure_queue(engine: Engine, name: str, policy: JobPolicy) -> Queue:
    """The queue of this name, made with this policy if there is none."""
    return await engine.queues.ensure(name, _make_policy(policy), by=_BY)


def _make_policy(policy: JobPolicy) -> Policy:
    retry = Retry(policy.tries, _BACKOFF, max_crashes=policy.tries)
    return with_retry(Policy(batch_size=policy.batch_size), retry)
