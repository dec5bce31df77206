"""What a function says of its parameters and its result, and calls of it in what JSON has: see `values`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

from ganger.core.errors import BadInput
from ganger.wire.values import convert, needs_conversion, spell

_POSITIONAL: Final = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})


class Parameters(NamedTuple):
    """The types of those parameters whose arguments are made of what JSON has, and of the result.

    `signature` is None for a builtin that has none: every call of it is taken.
    """

    signature: inspect.Signature | None = None
    names: tuple[str, ...] = ()
    by_place: Mapping[int, tuple[str, Any]] = {}
    by_name: Mapping[str, Any] = {}
    returns: Any = Any


def read_parameters(call: Callable[..., Any]) -> Parameters:
    """The parameters of a function. An annotation that nobody can resolve counts as none."""
    plain = inspect.unwrap(call)
    try:
        signature = inspect.signature(plain)
    except (TypeError, ValueError):
        return Parameters()
    try:
        hints = get_type_hints(plain)
    except (TypeError, NameError, AttributeError):
        return Parameters(signature, tuple(signature.parameters))
    wanted = {name: hint for name, hint in hints.items() if name != "return" and needs_conversion(hint)}
    by_place = {
        place: (parameter.name, wanted[parameter.name])
        for place, parameter in enumerate(signature.parameters.values())
        if parameter.name in wanted and parameter.kind in _POSITIONAL
    }
    return Parameters(signature, tuple(signature.parameters), by_place, wanted, hints.get("return", Any))


def check_call(parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError, as Python would, for a call that the function cannot take."""
    if parameters.signature is not None:
        parameters.signature.bind(*args, **kwargs)


def spell_arguments(
    parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any], keep: type | tuple[type, ...] = ()
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in what JSON has. BadInput names one that cannot be sent."""
    placed, named = list(args), dict(kwargs)
    for place, value in enumerate(args):
        name, hint = parameters.by_place.get(place) or (_name(parameters, place), Any)
        placed[place] = _spell(name, hint, value, keep)
    for name, value in kwargs.items():
        named[name] = _spell(name, parameters.by_name.get(name, Any), value, keep)
    return placed, named


def _name(parameters: Parameters, place: int) -> str:
    names = parameters.names
    return names[place] if place < len(names) else f"number {place + 1}"


def _spell(name: str, hint: Any, value: Any, keep: type | tuple[type, ...]) -> Any:
    try:
        return spell(value, hint, keep)
    except BadInput as error:
        raise BadInput(f"the argument {name}: {error.message}", field=name) from None
    except RecursionError:
        raise BadInput(f"the argument {name} is nested too deeply, or holds itself", field=name) from None


def convert_arguments(
    parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in the types that the function asks for. BadInput names the one that cannot be converted."""
    placed, named = list(args), dict(kwargs)
    for place, (name, hint) in parameters.by_place.items():
        if place < len(placed):
            placed[place] = _convert(name, placed[place], hint)
    for name in named.keys() & parameters.by_name.keys():
        named[name] = _convert(name, named[name], parameters.by_name[name])
    return placed, named


def _convert(name: str, value: Any, hint: Any) -> Any:
    try:
        return convert(value, hint)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BadInput(f"the argument {name}: {error}") from None
