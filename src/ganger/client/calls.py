"""A call that has not been sent: what is to be done and how, as a value."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar, Unpack

from msgspec import Struct, structs

from ganger.client.handle import Handle
from ganger.client.options import PLAIN, CommandWishes, Options, Wishes, retry_text, split
from ganger.client.references import encode, encode_plainly
from ganger.client.transport import Draft
from ganger.core.clock import Wall
from ganger.core.errors import BadInput
from ganger.core.graph import Edge
from ganger.core.ids import QueueId
from ganger.core.span import to_ms
from ganger.core.task import Kind, NewTask, OnConflict
from ganger.wire.specs import CommandSpec, ConditionSpec, Expression, ShellSpec, Spec, due_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Call(Struct, Generic[T_co], frozen=True):
    """A task to be. `returns` is the type in which its result is wanted back.

    `outline` is the task but for its spec, if whoever makes many alike has drawn it already.
    """

    kind: str
    spec: Spec
    options: Options = PLAIN
    returns: Any = Any
    outline: NewTask | None = None

    def using(self, **wishes: Unpack[Wishes]) -> "Call[T_co]":
        """A copy with other options."""
        return structs.replace(self, options=replace(self.options, **wishes), outline=None)


class Sender(Protocol):
    """Who sends calls, and answers with handles in their order."""

    def send(self, calls: Sequence[Call[T]]) -> list[Handle[T]]: ...

    async def asend(self, calls: Sequence[Call[T]]) -> list[Handle[T]]: ...


def draft(call: Call[Any]) -> Draft:
    """The call as a task by itself. The results that it asks for are waited for."""
    if (outline := call.outline) is not None and (spec := encode_plainly(call.spec)) is not None:
        return Draft(call.options.queue, NewTask(outline.queue, outline.kind, spec, *outline[3:]))
    encoded = encode(call.spec)
    if any(source.number < 0 for source in encoded.sources):
        raise BadInput("an argument is the result of a task in a graph that has not been submitted: add it to that one")
    if isinstance(call.spec, ConditionSpec) and isinstance(call.spec.probe, Expression):
        raise BadInput("an expression is about the tasks that it waits for: ask it in a graph, or with app.when")
    task = new_task(call, encoded.spec)
    if encoded.sources:
        task = task._replace(parents=tuple(map(Edge, sorted({source.number for source in encoded.sources}))))
    return Draft(call.options.queue, task)


def new_task(call: Call[Any], spec: bytes) -> NewTask:
    return draw_outline(call.kind, call.options)._replace(spec=spec, due=_due(call.spec))


def draw_outline(kind: str, options: Options) -> NewTask:
    """A task that has all but its spec."""
    return NewTask(
        QueueId(0),
        kind,
        priority=options.priority,
        delay=to_ms(options.delay, "delay"),
        key=options.key,
        # Without a key there is no conflict, and a task that asks for nothing special is stored by the short way.
        on_conflict=OnConflict.REFUSE if options.key is None else options.on_conflict,
        description=options.description,
        retry=retry_text(options.retries),
        timeout=None if options.timeout is None else to_ms(options.timeout, "timeout"),
        limit_key=options.limit_key,
        requires=tuple(options.requires),
    )


def _due(spec: Spec) -> Wall | None:
    due = due_of(spec) if isinstance(spec, ConditionSpec) else None
    return None if due is None else Wall(due)


def command(argv: Sequence[str], **wishes: Unpack[CommandWishes]) -> Call[int]:
    """A program and its arguments, without a shell; its result is its exit code."""
    if isinstance(argv, str) or not argv:
        raise BadInput("a command is a list of a program and its arguments; use shell() for a line of text")
    around, options = split(wishes)
    return Call(Kind.COMMAND, CommandSpec(argv=[str(part) for part in argv], **around.spell()), options, int)


def shell(script: str, **wishes: Unpack[CommandWishes]) -> Call[int]:
    """A bash script; its result is its exit code."""
    around, options = split(wishes)
    return Call(Kind.SHELL, ShellSpec(script=script, **around.spell()), options, int)
