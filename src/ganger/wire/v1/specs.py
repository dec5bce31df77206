"""What the data of a task says about what is to run: `command` and `args` here, one spec in the core.

Some keys of a node's data *are* its spec, others are values beside it. Which ones depends on the node's type. The keys
that a run makes (`result` and the streams) can be read and not be written.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from ganger.core.errors import BadInput
from ganger.core.task import PLUGIN, Kind
from ganger.wire.questions import check_condition
from ganger.wire.specs import CommandSpec, ConditionSpec, FunctionSpec, PluginSpec, ShellSpec
from ganger.wire.surroundings import check_surroundings
from ganger.wire.unreadable import UNREADABLE
from ganger.wire.v1.values import ValueIn, pack, show
from ganger.wire.v1.words import name_type

STREAMS: Final = ("stdout", "stderr", "mixedout")
RESULT: Final = "result"
MADE_BY_RUNS: Final = frozenset({RESULT, *STREAMS})
PAYLOAD: Final = "payload"
_SHOWN: Final = 200

_STRUCTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    Kind.COMMAND: CommandSpec,
    Kind.SHELL: ShellSpec,
    Kind.FUNCTION: FunctionSpec,
    Kind.CONDITION: ConditionSpec,
}
_RENAMED: Final = {Kind.COMMAND: "argv", Kind.SHELL: "script"}


def _struct(kind: str) -> type[msgspec.Struct] | None:
    return PluginSpec if kind.startswith(PLUGIN) else _STRUCTS.get(kind)


@lru_cache(maxsize=256)
def list_spec_keys(kind: str) -> frozenset[str]:
    """The data keys that are the spec of a task of this kind."""
    if kind == Kind.PAYLOAD:
        return frozenset({PAYLOAD})
    struct = _struct(kind)
    fields = set() if struct is None else set(struct.__struct_fields__)
    if kind in _RENAMED:
        fields = fields - {_RENAMED[Kind(kind)]} | {"command"} | ({"args"} if kind == Kind.COMMAND else set())
    return frozenset(fields)


def make_spec(kind: str, data: Mapping[str, Any]) -> bytes:
    """The spec that these data (of the spec keys alone) say; BadInput names what is wrong or missing."""
    if kind == Kind.PAYLOAD:
        return pack(ValueIn(data[PAYLOAD]))[0] if PAYLOAD in data else b""
    struct = _struct(kind)
    if struct is None:
        return b""
    try:
        spec = msgspec.convert(_rename(kind, data), struct)
        _check(spec)
        return msgspec.json.encode(spec)
    except msgspec.ValidationError as error:
        raise BadInput(f"the data are not those of a task of type {name_type(kind)!r}: {error}", field="data") from None
    except UnicodeEncodeError:
        raise BadInput("the data hold half of a surrogate pair, which no text can", field="data") from None


def _check(spec: msgspec.Struct) -> None:
    """What no node could do is refused now, and not when a node has it."""
    if isinstance(spec, ConditionSpec):
        check_condition(spec)
    if isinstance(spec, CommandSpec | ShellSpec):
        check_surroundings(spec)
        if spec.cwd is not None and not spec.cwd.startswith("/"):
            raise BadInput(f"data.cwd is {spec.cwd!r:.80}, which is no absolute path", field="data.cwd")


def _rename(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(data)
    if kind not in _RENAMED:
        return fields
    if not isinstance(command := fields.pop("command", None), str) or not command:
        raise BadInput(f"a task of type {name_type(kind)!r} needs data.command, a string", field="data.command")
    if kind == Kind.SHELL:
        return fields | {"script": command}
    args = fields.pop("args", [])
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        raise BadInput("data.args is a list of strings", field="data.args")
    return fields | {"argv": [command, *args]}


def show_spec(kind: str, spec: bytes) -> dict[str, Any]:
    """The data that the spec stands for. A spec that nobody can read is shown as it is."""
    if not spec:
        return {}
    if kind == Kind.PAYLOAD or _struct(kind) is None:
        return {PAYLOAD: show(spec, None).data}
    try:
        fields = msgspec.json.decode(spec, type=dict[str, Any])
        return _rename_back(kind, fields)
    except (*UNREADABLE, KeyError, ValueError, TypeError):
        return {"spec": show(spec, None).data}


def _rename_back(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    if kind == Kind.COMMAND:
        command, *args = fields.pop("argv")
        return {"command": command, "args": args, **fields}
    if kind == Kind.SHELL:
        return {"command": fields.pop("script"), **fields}
    return fields


def change_spec(kind: str, spec: bytes, changes: Mapping[str, Any]) -> bytes:
    """The spec with some of its keys changed; None takes one away."""
    fields = {**show_spec(kind, spec), **changes}
    return make_spec(kind, {key: value for key, value in fields.items() if value is not None})


def describe(kind: str, data: Mapping[str, Any]) -> str:
    """What lists show of a task that says nothing about itself: what it runs, or what it asks, in one line."""
    words: list[Any] = [name_type(kind)]
    if kind in _RENAMED:
        args = data.get("args")
        words = [data.get("command"), *(args if isinstance(args, list) else ())]
    elif kind == Kind.FUNCTION:
        words = [data.get("path")]
    elif kind == Kind.CONDITION and isinstance(probe := data.get("probe"), Mapping):
        words = [f"{name}={value}" for name, value in probe.items() if isinstance(value, str | int)]
    text = " ".join(" ".join(word.split()) for word in words if isinstance(word, str))[:_SHOWN]
    return (text if text.isprintable() else "".join(filter(str.isprintable, text))) or name_type(kind)


def describe_again(kind: str, description: str | None, before: bytes, after: bytes) -> str | None:
    """The description of a task whose spec was changed; None if it has one of its own."""
    if description not in (None, describe(kind, show_spec(kind, before))):
        return None
    return describe(kind, show_spec(kind, after))
