"""Graphs are changed while they run: what has not started may change, and no edit makes a cycle."""

from collections.abc import Sequence

from ganger.core import names
from ganger.core.audit import Act
from ganger.core.errors import BadInput
from ganger.core.graph import BRANCHES, On
from ganger.core.token import Attempt
from ganger.engine import checks
from ganger.engine.audit import act
from ganger.engine.limits import Limits
from ganger.engine.store import Change, Datum, Edit, Edits, Store
from ganger.engine.submit import refuse_branches


async def edit(
    store: Store, edits: Sequence[Edit], limits: Limits, *, by: str | None = None, under: Attempt | None = None
) -> None:
    """Make these edits, all or none. Either an operator makes them (`by`), or an attempt in its own family (`under`).

    What the attempt may change was asked before.
    """
    checks.check_whole("the number of edits", len(edits), 1, limits.items_per_step)
    for one in edits:
        _check(one, limits)
    if under is None and any(one.datum is not None for one in edits):
        raise BadInput("an operator puts a value of a task, and does not edit it", field="datum")
    if asked := {one.link[0]: one.link[1] for one in edits if one.link is not None and one.link[1] in BRANCHES}:
        await refuse_branches(store, asked)
    guard = None if under is None else (under.lease.task, under.lease.fence)
    await store.edit(Edits(tuple(edits), guard, _act(edits, by, under)))


def _act(edits: Sequence[Edit], by: str | None, under: Attempt | None) -> Act | None:
    if (by is None) == (under is None):
        raise BadInput("say who edits: `by` an operator, or `under` the lease of a holder", field="by")
    return None if by is None else act(by, "task.edit", edits=[_words(one) for one in edits])


def _words(one: Edit) -> str:
    """What an edit does, for the audit log; a spec is told by its size."""
    change = one.change
    if change is not None and change.spec is not None:
        return f"{one._replace(change=change._replace(spec=None))!r} and a spec of {len(change.spec)} bytes"
    return repr(one)


def _check(one: Edit, limits: Limits) -> None:
    parts = (one.change, one.kill or None, one.remove or None, one.link, one.unlink, one.close_group or None, one.datum)
    given = sum(part is not None for part in parts)
    if given != 1:
        raise BadInput(f"an edit of task {one.task} does {given} things; one edit does one", task=one.task)
    if one.descendants and not one.remove:
        raise BadInput("descendants goes with remove", task=one.task)
    if one.link is not None and one.link[1] not in set(On):
        raise BadInput(f"an edge asks for {one.link[1]!r:.80}; use one of {', '.join(On)}", task=one.task)
    if one.change is not None:
        _check_change(one.change, limits)
    if one.datum is not None:
        _check_datum(one.datum, limits)


def _check_datum(datum: Datum, limits: Limits) -> None:
    checks.check_data_key(datum.key)
    if datum.value is not None:
        checks.check_size(datum.key, datum.value, limits.payload)


def _check_change(change: Change, limits: Limits) -> None:
    if change.spec is not None:
        checks.check_size("spec", change.spec, limits.payload)
    if change.priority is not None:
        checks.check_priority(change.priority)
    if change.due is not None:
        checks.check_whole("due", change.due, 0, checks.LATEST)
    if change.description is not None:
        names.check_text("description", change.description, limits.description)
    if change.retry is not None:
        checks.check_retry(change.retry)
    if change.timeout is not None:
        checks.check_delay("timeout", change.timeout, 1)
