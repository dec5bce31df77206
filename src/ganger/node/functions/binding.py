"""From an import path to something that can be called with what came as JSON.

JSON knows no dates, no bytes, no sets, no classes. Where a parameter is annotated with such a type, its argument is
converted; where the annotation is one that JSON has anyway, or nothing that can be used, the argument goes as it is.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import msgspec

from ganger.core.errors import BadInput

_PLAIN: Final = frozenset({str, int, float, bool, type(None), list, dict, object, Any, inspect.Parameter.empty})


class Target(NamedTuple):
    """A function, where it wants to run, and the types of those of its parameters that need a conversion."""

    call: Callable[..., Any]
    is_async: bool
    by_place: Mapping[int, tuple[str, Any]]
    by_name: Mapping[str, Any]


def find(path: str) -> Target:
    """The function of `module:name`. BadInput says what is wrong with the path; an import may raise anything."""
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise BadInput(f"{path!r:.200} is no import path; write module:name")
    found: Any = import_module(module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise BadInput(f"{path!r:.200}: {module_name} has no {name!r}") from None
    if not callable(found):
        raise BadInput(f"{path!r:.200} is a {type(found).__name__}, which cannot be called")
    return _describe(found)


def _describe(found: Callable[..., Any]) -> Target:
    plain = inspect.unwrap(found)
    is_async = inspect.iscoroutinefunction(plain)
    try:
        hints = get_type_hints(plain)
        parameters = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError, NameError, AttributeError):
        # A builtin without a signature, or an annotation that nobody can resolve: everything goes as it is.
        return Target(found, is_async, {}, {})
    wanted = {name: hint for name, hint in hints.items() if name != "return" and _needs_conversion(hint)}
    by_place = {
        place: (parameter.name, wanted[parameter.name])
        for place, parameter in enumerate(parameters)
        if parameter.name in wanted and parameter.kind in _POSITIONAL
    }
    return Target(found, is_async, by_place, wanted)


_POSITIONAL: Final = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})


def _needs_conversion(hint: Any) -> bool:
    if hint in _PLAIN:
        return False
    parts = get_args(hint)
    if parts and all(part is Ellipsis or not _needs_conversion(part) for part in parts):
        return getattr(hint, "__origin__", None) in (tuple, set, frozenset)
    return _is_known(hint)


def _is_known(hint: Any) -> bool:
    """Does the converter know the type? A parameter of a class of one's own may be given by a default alone."""
    try:
        msgspec.json.Decoder(hint)
    except TypeError:
        return False
    return True


def convert(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in the types that the function asks for. BadInput names the one that cannot be converted."""
    placed, named = list(args), dict(kwargs)
    for place, (name, hint) in target.by_place.items():
        if place < len(placed):
            placed[place] = _convert(name, placed[place], hint)
    for name in named.keys() & target.by_name.keys():
        named[name] = _convert(name, named[name], target.by_name[name])
    return placed, named


def _convert(name: str, value: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise BadInput(f"the argument {name}: {error}") from None
