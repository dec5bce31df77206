"""What a person reads of a task in a list: its description, or what it is to run, with the arguments."""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ganger.core.errors import BadInput, PayloadTooLarge, TaskNotFound
from ganger.core.ids import TaskId
from ganger.core.task import Kind

if TYPE_CHECKING:
    from ganger.core.task import Task
    from ganger.engine.engine import Engine
    from ganger.engine.view import View

Titles = Mapping[TaskId, str]
_LOOKED_AT: Final = 2_000
"""Of a longer spec nobody reads the end in a list."""

_LONGEST: Final = 60
_PATH: Final = re.compile(rb'"path":\s*"([^"\\]+)"')


async def title_tasks(engine: "Engine | View", tasks: "Iterable[Task]") -> Titles:
    """The title of each task by its id."""
    return {task.id: task.description or await _title(engine, task) for task in tasks}


async def _title(engine: "Engine | View", task: "Task") -> str:
    if not task.spec_size:
        return f"({task.kind})"
    try:
        spec = (await engine.read_data(task.id, "spec", 0, _LOOKED_AT)).body
    except (TaskNotFound, PayloadTooLarge):
        # It was removed since it was listed, or has arguments of such a size that nobody wants them read for this.
        return f"({task.kind})"
    return say_spec(task.kind, spec)


def say_spec(kind: str, spec: bytes) -> str:
    """What a task of this kind runs: `letters:greet('Ann')`, `sort -u names`. Of a spec that was cut the beginning."""
    import msgspec

    from ganger.cli.questions import say_question
    from ganger.wire import specs

    try:
        match kind:
            case Kind.FUNCTION:
                return _say_call(specs.decode(spec, specs.FunctionSpec))
            case Kind.COMMAND:
                return shlex.join(specs.decode(spec, specs.CommandSpec).argv)
            case Kind.SHELL:
                return str(specs.decode(spec, specs.ShellSpec).script)
            case Kind.CONDITION:
                return say_question(specs.decode(spec, specs.ConditionSpec))
            case _:
                return f"({kind})"
    except (BadInput, msgspec.MsgspecError):
        return _say_cut(kind, spec)


def _say_cut(kind: str, spec: bytes) -> str:
    found = _PATH.search(spec) if kind == Kind.FUNCTION else None
    return f"({kind})" if found is None else f"{found[1].decode('utf-8', 'replace')}(…)"


def _say_call(spec: Any) -> str:
    placed = [_say_value(value) for value in spec.args]
    named = [f"{name}={_say_value(value)}" for name, value in spec.kwargs.items()]
    return f"{spec.path}({', '.join([*placed, *named])})"


def _say_value(value: Any) -> str:
    """An argument as Python writes it, and a reference as what it stands for."""
    from ganger.cli.printing import cut
    from ganger.wire.values import TASK, read

    if isinstance(value, dict) and value.keys() == {TASK}:
        return f"result of {value[TASK]}"
    return cut(repr(read(value)), _LONGEST)
