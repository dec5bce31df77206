"""From what a person wrote, in options or in a file, to a task of the engine."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ganger.cli.opening import name_operator
from ganger.core import expression
from ganger.core.errors import BadInput, QueueNotFound, UnknownParent
from ganger.core.graph import Edge, On
from ganger.core.ids import QueueId
from ganger.core.queue import Queue
from ganger.core.retry import Retry, to_text
from ganger.core.task import DEFAULT_PRIORITY, Kind, NewTask, OnConflict
from ganger.engine.conditions import plan_condition
from ganger.engine.engine import Engine
from ganger.wire.specs import CommandSpec, ConditionSpec, Expression, FunctionSpec, ShellSpec, encode

DEFAULT_QUEUE: Final = "default"


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task as people write it. Times are milliseconds; `retries` is how often it is tried again after a failure.

    `after` names parents, each with `:finished` or `:failed` behind it if it need not succeed, and a condition with
    `:then` or `:else`. A wish without a command, script, function or condition is a point where others meet.
    """

    command: list[str] = []
    shell: str | None = None
    function: FunctionSpec | None = None
    condition: ConditionSpec | None = None
    queue: str | None = None
    priority: int = DEFAULT_PRIORITY
    delay: int = 0
    key: str | None = None
    once: bool = False
    after: list[str] = []
    join: str = "all"
    description: str | None = None
    timeout: int | None = None
    retries: int | None = None
    cwd: str | None = None
    env: dict[str, str] = {}
    stdin: str | None = None
    requires: list[str] = []


async def find_queue(engine: Engine, name: str) -> Queue:
    """The queue of this name, made if it is missing; `id:3` names one that is there."""
    from ganger.cli.printing import tell
    from ganger.cli.views import choose_queue

    try:
        return await choose_queue(engine, name)
    except QueueNotFound:
        if name.startswith("id:"):
            raise
    made = await engine.queues.ensure(name, by=name_operator())
    if name != DEFAULT_QUEUE:
        tell(f"the queue {name} is new")
    return made


def make_task(wish: Wish, queue: int, places: Mapping[str, int], group: int = 0) -> NewTask:
    """The task that is wished for. `places` are the names that `after` may use, with what stands for each."""
    edges = tuple(_edge(text, places) for text in wish.after)
    kind, spec = _spec(_number(wish, edges, places))
    return NewTask(
        QueueId(queue), kind, spec, wish.priority, delay=wish.delay,
        parents=edges,
        join=wish.join,
        group=group,
        key=wish.key,
        on_conflict=OnConflict.RETURN if wish.once else OnConflict.REFUSE,
        description=wish.description,
        retry=None if wish.retries is None else to_text(Retry(wish.retries + 1)),
        timeout=wish.timeout,
        requires=tuple(wish.requires),
        due=None if wish.condition is None or wish.delay else plan_condition(wish.condition),
    )  # fmt: skip


def _number(wish: Wish, edges: Sequence[Edge], places: Mapping[str, int]) -> Wish:
    """A condition whose expression names parents, with their rank by id instead: those to be stored come last."""
    spec = wish.condition
    if spec is None or not isinstance(spec.probe, Expression):
        return wish
    ranked = sorted({edge.parent for edge in edges}, key=lambda parent: (parent < 0, abs(parent)))
    numbers = {name: -1 - ranked.index(place) for name, place in places.items() if place in ranked}
    text = expression.number_parents(spec.probe.text, numbers)
    expression.check(text)
    return replace(wish, condition=replace(spec, probe=Expression(text)))


def _spec(wish: Wish) -> tuple[str, bytes]:
    try:
        return _encode(wish)
    except UnicodeEncodeError as error:
        raise BadInput(f"a task is kept as UTF-8, and this is none: {error.object!r:.80}") from None
    except RecursionError:
        raise BadInput("an argument is nested too deeply, or holds itself") from None


def _encode(wish: Wish) -> tuple[str, bytes]:
    kinds = [bool(wish.command), wish.shell is not None, wish.function is not None, wish.condition is not None]
    if sum(kinds) > 1:
        raise BadInput("a task is one of command, shell, function and condition, not several")
    around: dict[str, Any] = {"cwd": wish.cwd, "env": wish.env, "stdin": wish.stdin}
    if wish.command:
        return Kind.COMMAND, encode(CommandSpec(argv=wish.command, **around))
    if wish.shell is not None:
        return Kind.SHELL, encode(ShellSpec(script=wish.shell, **around))
    if wish.function is not None:
        return Kind.FUNCTION, encode(wish.function)
    return (Kind.CONDITION, encode(wish.condition)) if wish.condition is not None else (Kind.GROUP, b"")


def split_edge(text: str) -> tuple[str, str]:
    """`name:finished` is the name and what is asked of it; a name alone asks for success."""
    name, _, on = text.rpartition(":")
    return (name, on) if name and on in set(On) else (text, On.SUCCESS.value)


def _edge(text: str, places: Mapping[str, int]) -> Edge:
    name, on = split_edge(text)
    if name in places:
        return Edge(places[name], on)
    if not (name.isascii() and name.isdecimal()):
        known = f"; known are {', '.join(list(places)[:20])}" if places else ", and no id of a task"
        raise UnknownParent(f"{name!r} is not a task to wait for{known}", parent=name)
    return Edge(int(name), on)
