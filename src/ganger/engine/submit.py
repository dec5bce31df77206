"""Tasks come in: everything about them is checked here, once, and then they are stored together.

A plain task costs one comparison of its tail with the tail of a task that says nothing special; only what differs from
its default is looked at. Tasks may wait for each other inside a submission. A task can wait only for those before it
without making a cycle, so the whole graph is sorted only if some task points forward or waits for a group, which
in turn waits for its members.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ganger.core import names
from ganger.core.audit import Act
from ganger.core.errors import BadInput, CycleFound, GangerError, UnknownGroup, UnknownParent
from ganger.core.graph import BRANCHES, Edge, Join, On, order
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.showing import show
from ganger.core.state import is_final
from ganger.core.task import Kind, NewTask, OnConflict
from ganger.core.token import Attempt
from ganger.engine import checks
from ganger.engine.limits import Limits
from ganger.engine.store import Datum, Past, Prompt, Store, Submission, Submitted
from ganger.engine.witness import SubmitCommitted, Witness

_HEAD: Final = 3
_TAIL: Final = NewTask(QueueId(1), Kind.PAYLOAD)[_HEAD:]
_EDGES: Final = NewTask._fields.index("parents")
_REST: Final = _TAIL[_EDGES + 1 - _HEAD :]
_FRONT: Final = _TAIL[: _EDGES - _HEAD]
_LARGEST_ID: Final = (1 << 63) - 1
_ONS: Final = frozenset(On)


async def submit(
    store: Store,
    tasks: Sequence[NewTask],
    limits: Limits,
    *,
    witness: Witness | None = None,
    under: Attempt | None = None,
    act: Act | None = None,
    data: Sequence[tuple[int, Datum]] = (),
    pasts: Sequence[tuple[int, Past]] = (),
) -> Submitted:
    """Check the tasks and store them with their data, all or none."""
    asked = check_tasks(tasks, limits)
    if asked:
        await refuse_branches(store, asked)
    _check_pasts(pasts)
    guard = None if under is None else (under.lease.task, under.lease.fence)
    request = Submission(tuple(tasks), guard, act, tuple(data), tuple(pasts))
    reply = await store.submit(request)
    if witness is not None:
        await witness.witnessed(SubmitCommitted(request, reply))
    return reply


def _check_pasts(pasts: Sequence[tuple[int, Past]]) -> None:
    for index, past in pasts:
        if not is_final(past.status):
            raise BadInput(f"task {index} of the submission: {past.status} is no end of a task", field="pasts")
        checks.check_whole("ended", past.ended, 0, checks.LATEST)
        checks.check_whole("created", past.created, 0, past.ended)


def post_now(store: Prompt, tasks: Sequence[NewTask], limits: Limits) -> Callable[[], Submitted] | None:
    """Check the tasks and see that they are safe, while the calling thread waits; the reply may come later.

    None: other tasks are to be looked at first, which takes an event loop.
    """
    if check_tasks(tasks, limits):
        return None
    request = Submission(tuple(tasks))
    for task in tasks:
        if not stands_alone(task):
            reply = store.submit_now(request)
            return lambda: reply
    return store.post_now(request)


def stands_alone(task: NewTask) -> bool:
    """Nothing but the end of its queue can keep it from being stored."""
    return task.key is None and not task.parents and not task.group and task.retry_of is None


def check_tasks(tasks: Sequence[NewTask], limits: Limits) -> Mapping[TaskId, str]:
    """Refuse what is wrong in a submission with an error that says which task and what to do.

    Which tasks of the store are asked for a branch: they have to be conditions.
    """
    checks.check_whole("the number of tasks in one submission", len(tasks), 0, limits.tasks_per_submit)
    index, related, kinds, payload = 0, [], checks.KINDS, limits.payload
    shared: tuple[Any, ...] = _TAIL
    try:
        for index, task in enumerate(tasks):
            spec, tail = task[2], task[_HEAD:]
            if task[1] not in kinds or spec.__class__ is not bytes or len(spec) > payload:
                _check_head(task, limits)
            if tail not in (_TAIL, shared) and not _is_fine(tasks, index):
                _check_tail(task, limits)
                if task.parents or task.group:
                    related.append(index)
                    shared = tail if _has_only_elders(task) else _TAIL
        for index in related:
            _check_family(tasks, index)
    except GangerError as error:
        raise type(error)(f"task {index} of the submission: {error.message}", **error.fields, index=index) from None
    if related:
        _check_cycles(tasks, related)
    edges = (edge for index in related for edge in tasks[index].parents)
    return {TaskId(edge.parent): edge.on for edge in edges if edge.on in BRANCHES and edge.parent > 0}


async def refuse_branches(store: Store, asked: Mapping[TaskId, str]) -> None:
    """BadInput if a branch is asked of a task that is no condition and so chooses none."""
    for task in await store.tasks(list(asked)):
        if task is not None and task.kind != Kind.CONDITION:
            raise _no_branch(f"task {task.id}", asked[task.id])


def _no_branch(parent: str, on: str) -> BadInput:
    return BadInput(f"{parent} is no condition and has no branch {on}: ask for success, finished or failed", field="on")


def _check_head(task: NewTask, limits: Limits) -> None:
    checks.check_kind(task.kind)
    checks.check_size("spec", task.spec, limits.payload)


def _is_fine(tasks: Sequence[NewTask], index: int) -> bool:
    """Is it plain, with one edge that leads back to a task before it?"""
    task = tasks[index]
    edges = task.parents
    if len(edges) != 1 or not _is_plain_but_edges(task):
        return False
    parent, on = edges[0]
    if type(parent) is not int or not -index <= parent < 0 or on not in _ONS or on in BRANCHES:
        return False
    return tasks[-parent - 1][1] != Kind.GROUP


def _is_plain_but_edges(task: NewTask) -> bool:
    """As most tasks of a large graph are."""
    return task[_EDGES + 1 :] == _REST and task[_HEAD:_EDGES] == _FRONT


def _has_only_elders(task: NewTask) -> bool:
    """Another one like it needs no second look: none of its edges is to a task of the submission."""
    return _is_plain_but_edges(task) and bool(task.parents) and min(task.parents)[0] > 0


def _check_tail(task: NewTask, limits: Limits) -> None:
    if _is_plain_but_edges(task):
        _check_parents(task.parents, limits)
        return
    for value, default, check in zip(task[_HEAD:], _TAIL, _CHECKS, strict=True):
        if value is not default and value != default:
            check(value, limits)
    if task.open_group and task.kind != Kind.GROUP:
        raise BadInput(f"open_group is for the kind group, not for {task.kind}", field="open_group")


def _check_parents(parents: tuple[Edge, ...], _: Limits) -> None:
    if len(parents) == 1 and parents[0][1] in _ONS and _is_parent(parents[0][0]):
        return
    asked, ids = {edge[1] for edge in parents}, {edge[0] for edge in parents}
    if not asked <= _ONS:
        wrong = min(map(str, asked - _ONS))
        raise BadInput(f"an edge asks for {wrong!r:.80}; use one of {', '.join(On)}", field="parents")
    # A join may have a million parents: they are looked at one by one only to name the one that is wrong.
    whole = set(map(type, ids)) <= {int}
    if not whole or 0 in ids or (ids and not -_LARGEST_ID <= min(ids) <= max(ids) <= _LARGEST_ID):
        strange = next(parent for parent in ids if not _is_parent(parent))
        raise UnknownParent(f"{show(strange)} is no parent: give an id, or -n for the n-th task", parent=str(strange))
    if len(ids) != len(parents):
        raise BadInput("a task waits twice for the same parent; give one edge", field="parents")


def _is_parent(parent: object) -> bool:
    return type(parent) is int and -_LARGEST_ID <= parent <= _LARGEST_ID and parent != 0


def _check_one_of(field: str, allowed: frozenset[str]) -> Callable[[str, Limits], None]:
    def check(value: str, _: Limits) -> None:
        if value not in allowed:
            raise BadInput(f"{field} is {show(value)}; use one of {', '.join(sorted(allowed))}", field=field)

    return check


def _check_name(what: str) -> Callable[[str, Limits], object]:
    return lambda value, _: names.check(what, value)


_BY_FIELD: Final[dict[str, Callable[[Any, Limits], object]]] = {
    "priority": lambda value, _: checks.check_priority(value),
    "delay": lambda value, _: checks.check_delay("delay", value),
    "parents": _check_parents,
    "join": _check_one_of("join", frozenset(Join)),
    "group": lambda value, _: checks.check_whole("group", value, -_LARGEST_ID, _LARGEST_ID),
    "key": _check_name("key"),
    "on_conflict": _check_one_of("on_conflict", frozenset(OnConflict)),
    "description": lambda value, limits: names.check_text("description", value, limits.description),
    "retry": lambda value, _: checks.check_retry(value),
    "timeout": lambda value, _: checks.check_delay("timeout", value, 1),
    "renewal": _check_one_of("renewal", frozenset(Renewal)),
    "ttr": lambda value, limits: checks.check_delay("ttr", value, limits.shortest_ttr),
    "limit_key": _check_name("concurrency key"),
    "requires": lambda value, limits: checks.check_labels("label", value, limits.labels),
    "open_group": lambda value, _: None,
    "due": lambda value, _: checks.check_whole("due", value, 0, checks.LATEST),
    "retry_of": lambda value, _: checks.check_whole("retry_of", value, 1, _LARGEST_ID),
}
_CHECKS: Final = tuple(_BY_FIELD[field] for field in NewTask._fields[_HEAD:])


def _check_family(tasks: Sequence[NewTask], index: int) -> None:
    """Those of its parents and the group that are named by their place in the submission must be in it."""
    task, count = tasks[index], len(tasks)
    if task.parents and (first := min(task.parents)[0]) < -count:
        raise UnknownParent(f"parent {first} is not one of the {count} tasks", parent=first)
    for parent, on in task.parents:
        if on in BRANCHES and parent < 0 and tasks[-parent - 1].kind != Kind.CONDITION:
            raise _no_branch(f"task {-parent - 1} of the submission", on)
    if task.group and any(parent == task.group for parent, _ in task.parents):
        raise CycleFound(f"it waits for its own group {task.group}, which waits for it", tasks=[index])
    if task.group < -count or (task.group < 0 and tasks[-task.group - 1].kind != Kind.GROUP):
        raise UnknownGroup(f"group {task.group} is not a task of the kind group in this submission", group=task.group)


def _check_cycles(tasks: Sequence[NewTask], related: Sequence[int]) -> None:
    if not any(_points_forward(tasks, index) for index in related):
        return
    waits: list[list[int]] = [[-edge.parent - 1 for edge in task.parents if edge.parent < 0] for task in tasks]
    for index in related:
        if tasks[index].group < 0:
            waits[-tasks[index].group - 1].append(index)
    order(waits)


def _points_forward(tasks: Sequence[NewTask], index: int) -> bool:
    task = tasks[index]
    if task.group < 0 and -task.group > index:
        return True
    return any(-parent > index or tasks[-parent - 1].kind == Kind.GROUP for parent, _ in task.parents if parent < 0)
