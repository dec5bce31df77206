"""A Python function that can be called here, or sent to be called by a node."""

import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, Unpack

from ganger.client.calls import Call, Sender, draw_outline
from ganger.client.handle import AsyncHandle, Handle
from ganger.client.options import Options, Wishes
from ganger.client.references import Referable, Reference
from ganger.core.errors import BadInput
from ganger.core.registered import Registered
from ganger.core.task import Kind, NewTask
from ganger.wire.arguments import Parameters, check_call, read_parameters, spell_arguments
from ganger.wire.specs import FunctionSpec

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
X = TypeVar("X")
T_co = TypeVar("T_co", covariant=True)
X_contra = TypeVar("X_contra", contravariant=True)
Mode = Literal["process", "thread", "loop"]
AT_ONCE: Final = 10_000
"""How many tasks of a `map` are stored together."""


class _Mappable(Protocol[X_contra, T_co]):
    """A function that can be called with one argument."""

    def bind(self, item: X_contra, /) -> Call[T_co]: ...

    def find_sender(self) -> Sender: ...


class Function(Registered, Generic[P, R, T]):
    """A function of an app. Called, it is what it was; `delay` and `enqueue` submit a call of it as a task.

    R is what a call here returns and T what the task results in: they differ for async functions.
    """

    def __init__(self, sender: Sender, call: Callable[P, R], options: Options, mode: Mode | None = None) -> None:
        self._sender = sender
        self._call = call
        self._options = options
        self._mode = mode
        functools.update_wrapper(self, call)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task function {self._call.__module__}:{self._call.__qualname__}>"

    @functools.cached_property
    def path(self) -> str:
        """Where a node finds it. BadInput: nowhere."""
        return find_path(self._call)

    def using(self, **wishes: Unpack[Wishes]) -> "Function[P, R, T]":
        """A copy whose tasks have other options."""
        return Function(self._sender, self._call, replace(self._options, **wishes), self._mode)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """The call as a value, to be put into a group or a graph."""
        return self.prepare(list(args), kwargs)

    def prepare(self, args: list[Any], kwargs: dict[str, Any]) -> Call[T]:
        """The call as a value; results of other tasks may be among its arguments.

        Raises TypeError if the function cannot take them, BadInput if one of them cannot be sent.
        """
        parameters = self._parameters
        check_call(parameters, args, kwargs)
        placed, named = spell_arguments(parameters, args, kwargs, keep=(Referable, Reference))
        spec = FunctionSpec(self.path, placed, named, self._mode)
        return Call(Kind.FUNCTION, spec, self._options, parameters.returns, self._outline)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """Submit a call; it is stored when this returns."""
        return self._sender.send([self.bind(*args, **kwargs)])[0]

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[T]:
        """Submit a call, from async code."""
        return (await self._sender.asend([self.bind(*args, **kwargs)]))[0].aio

    def map(self: "_Mappable[X, T]", items: Iterable[X]) -> list[Handle[T]]:
        """Submit one call for each item, ten thousand at a time: those are stored together or not at all."""
        sender, calls, handles = self.find_sender(), [self.bind(item) for item in items], list[Handle[T]]()
        for start in range(0, len(calls), AT_ONCE):
            handles += sender.send(calls[start : start + AT_ONCE])
        return handles

    async def enqueue_map(self: "_Mappable[X, T]", items: Iterable[X]) -> list[AsyncHandle[T]]:
        """As `map`, from async code."""
        sender, calls, handles = self.find_sender(), [self.bind(item) for item in items], list[AsyncHandle[T]]()
        for start in range(0, len(calls), AT_ONCE):
            handles += [handle.aio for handle in await sender.asend(calls[start : start + AT_ONCE])]
        return handles

    def find_sender(self) -> Sender:
        """Who submits many calls of it. BadInput: all of them would have one key."""
        if self._options.key is not None:
            raise BadInput("many tasks cannot have one key: map without it, or submit them one by one", field="key")
        return self._sender

    @functools.cached_property
    def _outline(self) -> NewTask:
        return draw_outline(Kind.FUNCTION, self._options)

    @functools.cached_property
    def _parameters(self) -> Parameters:
        return read_parameters(self._call)


def find_path(call: Callable[..., Any]) -> str:
    """`module:name`, as a node imports it; a program that was started as a script is a module there."""
    module, name = getattr(call, "__module__", None), getattr(call, "__qualname__", "")
    if "<" in name or not name or module is None:
        shown = name or type(call).__name__
        raise BadInput(f"{shown:.200} is defined inside a function, where no node can find it: move it to its module")
    return f"{_main_name() if module == '__main__' else module}:{name}"


def _main_name() -> str:
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return main.__spec__.name
    file = getattr(main, "__file__", None)
    if file is None:
        raise BadInput("a function that was typed into an interpreter cannot be found by a node: put it in a file")
    return Path(file).stem
