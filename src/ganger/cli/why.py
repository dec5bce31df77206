"""`ganger why`: what keeps a task from running."""

import sys
from typing import TYPE_CHECKING, Final

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import clean, fold, print_json
from ganger.cli.words import find_task, read_name, say_time

if TYPE_CHECKING:
    from ganger.core.ids import TaskId
    from ganger.engine.engine import Engine
    from ganger.engine.explain import Why
    from ganger.engine.obstacles import Reason

_EARLIEST = 10**12
"""A number above this is a time in these sentences: nothing else that they tell is so large."""


_ADVICE: Final = {
    "no_node": ": start one with `ganger up`",
    "held": "; `ganger kick {task}` makes it ready",
    "held_after_crashes": "; `ganger kick {task}` makes it ready",
    "queue_paused": "; `ganger queue resume` ends the pause",
}
"""What a person may do about it, by the code of the reason."""


@click.command()
@take_store
@take_json
@click.argument("task", type=read_name, metavar="ID")
def why(store: str | None, as_json: bool, task: "TaskId | str") -> None:
    """Say why a task does not run. All that keeps it from it is told; or where it runs, or how it ended.

    ID is a number, a key, the GUID of a job, or the object id of a document in MongoDB.
    """

    async def explain(engine: "Engine") -> "tuple[TaskId | str, Why]":
        if isinstance(task, str) and (odd := await _find_odd(engine, task)) is not None:
            return task, odd
        found = await find_task(engine, task)
        return found, await engine.explain(found)

    number, answer = run_engine(store, explain)
    if as_json:
        reasons = [reason._asdict() for reason in answer.reasons]
        print_json({"id": number, "status": answer.status, "reasons": reasons})
        return
    for line in say_reasons(number, answer):
        _print(line)


async def _find_odd(engine: "Engine", id: str) -> "Why | None":
    """What is wrong with a document of strangers that is left alone. It has no number: nobody here runs it."""
    from ganger.core.ids import TaskId
    from ganger.engine.explain import Why
    from ganger.engine.obstacles import Reason
    from ganger.engine.store import Strangers

    odd = await engine.store.find_odd(id) if isinstance(engine.store, Strangers) else None
    if odd is None:
        return None
    said = {"collection": odd.collection, "document": odd.id}
    return Why(TaskId(0), "left alone", [Reason("odd_document", f"its document makes no sense: {odd.what}", said)])


def say_reasons(task: "TaskId | str", answer: "Why") -> list[str]:
    """How the task is, and below it each reason with what a person may do about it."""
    lines = [f"task {task} is {answer.status}"]
    for reason in answer.reasons:
        advice = _ADVICE.get(reason.code, "").format(task=task)
        lines.append(f"  {clean(_sentence(reason))}{advice} [{reason.code}]")
    return lines


def _print(line: str) -> None:
    for part in fold(line, "    ") if sys.stdout.isatty() else [line]:
        click.echo(part)


def _sentence(reason: "Reason") -> str:
    """The sentence, with times as people read them in place of numbers."""
    sentence = reason.sentence
    for field in reason.fields.values():
        if isinstance(field, int) and field > _EARLIEST:
            sentence = sentence.replace(str(field), say_time(field))
    return sentence
