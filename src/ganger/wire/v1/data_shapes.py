"""The data of tasks of each type, for those who read the description: made from the specs, so that it stays true."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import FieldInfo, fields

from ganger.wire.specs import CommandSpec, ConditionSpec, FunctionSpec, PluginSpec, ShellSpec


def _define(name: str, spec: type[msgspec.Struct], instead: str = "", own: Sequence[tuple[Any, ...]] = ()) -> type:
    """The spec with other words for one of its fields. Keys that it does not know are values beside it."""
    kept = [_restate(field) for field in fields(spec) if field.name != instead]
    made = msgspec.defstruct(name, [*own, *kept], kw_only=True, frozen=True)
    made.__doc__ = spec.__doc__
    return made


def _restate(field: FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type


class PayloadData(msgspec.Struct, frozen=True):
    """Any value; workers of the jobs door are sent it as bytes."""

    payload: Any = None


DATA: Final = (
    _define("CommandData", CommandSpec, "argv", [("command", str), ("args", list[str], [])]),
    _define("ShellData", ShellSpec, "script", [("command", str)]),
    _define("FunctionData", FunctionSpec),
    _define("ConditionData", ConditionSpec),
    _define("PluginData", PluginSpec),
    PayloadData,
)
"""Of the types `command`, `shell command`, `function`, `condition`, `plugin:<name>` and `payload`."""

NAMES: Final = tuple(shape.__name__ for shape in DATA)
