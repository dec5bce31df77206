"""From an import path to something that can be called with what came as JSON.

What can go wrong, and why this is right:

- *The path names what nobody meant to be called*, as `os:system`. What is called is what an app has declared, or what
  the operator allows by a pattern.
- *A pattern allows a module, and the path goes through it to another*, as `mine.tasks:subprocess.getoutput`. So what is
  found must be allowed by the name that it has where it is defined as well.
- *The import itself does something.* A module of the standard library is not even imported, unless it is allowed. What
  else lies on the node's paths is the operator's: to import it is to run it.
"""

import inspect
import sys
import sysconfig
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from ganger.core.errors import BadInput, NotRegistered
from ganger.core.registered import Registered
from ganger.wire.arguments import Parameters, read_parameters

_STANDARD: Final = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


class Target(NamedTuple):
    """A function, where it wants to run, and what it says of its parameters and its result."""

    call: Callable[..., Any]
    is_async: bool
    parameters: Parameters


class Allowed(NamedTuple):
    """What may be called besides what apps declare: patterns of names, as `mypackage.*`."""

    patterns: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


NOTHING: Final = Allowed()


def find(path: str, allowed: Allowed = NOTHING) -> Target:
    """The function of `module:name`. An import may raise anything.

    BadInput says what is wrong with the path, NotRegistered that nobody meant it to be called.
    """
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise BadInput(f"{path!r:.200} is no import path; write module:name")
    is_named = allowed.has(f"{module_name}.{name}")
    if not is_named and _is_standard(module_name):
        raise _refuse(path)
    found: Any = import_module(module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise BadInput(f"{path!r:.200}: {module_name} has no {name!r}") from None
    if not callable(found):
        raise BadInput(f"{path!r:.200} is a {type(found).__name__}, which cannot be called")
    if not _is_registered(found) and not (is_named and allowed.has(_find_own_name(found))):
        raise _refuse(path)
    return Target(found, inspect.iscoroutinefunction(inspect.unwrap(found)), read_parameters(found))


def _refuse(path: str) -> NotRegistered:
    return NotRegistered(
        f"{path!r:.200} is no function that an app has declared: put @app.task on it, or name it in the setting "
        f"allow of this node [{NotRegistered.code}]",
        path=path[:200],
    )


def _is_standard(module_name: str) -> bool:
    """Is it of the standard library, and not one of the user's that has the same name?"""
    top = module_name.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return False
    spec = sys.modules[top].__spec__ if top in sys.modules else find_spec(top)
    if spec is None or spec.origin is None or not spec.has_location:
        return True
    place = Path(spec.origin).resolve()
    return any(place.is_relative_to(folder) for folder in _STANDARD) and _INSTALLED.isdisjoint(place.parts)


def _is_registered(found: Any) -> bool:
    """Is it declared by an app, or a decorated one that is?"""
    return isinstance(inspect.unwrap(found, stop=lambda layer: isinstance(layer, Registered)), Registered)


def _find_own_name(found: Any) -> str:
    """Where it is defined, whatever the path by which it was reached."""
    named = found if hasattr(found, "__qualname__") else type(found)
    return f"{getattr(named, '__module__', None) or type(named).__module__}.{named.__qualname__}"
