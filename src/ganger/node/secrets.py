"""Secrets by reference: a spec says `secret:name`, and the node that runs it, which alone knows the value, puts it in.

In the environment, the standard input and the arguments of a command the whole value is a reference, or what follows
the `=` of an argument (`--password=secret:name`). Among the arguments of a function and the parameters of a plugin it
is any text, however deep it lies. `secret::` at such a place stands for a plain `secret:`. A script itself is never
searched: it takes its secrets from its environment.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ganger.core.errors import BadInput

REFERENCE: Final = "secret:"
SHORTEST: Final = 4
_ESCAPED: Final = "secret::"
_QUOTED: Final = b'"secret:'
_SPELT: Final = b"\\u00"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_OPTION: Final = re.compile(r"(-[^=\s]*=)(secret:.*)", re.DOTALL)


class Secrets(Protocol):
    """Whoever knows the secrets of a node."""

    def find(self, name: str) -> str | None:
        """The value now; None if there is none. BadInput or StoreError if it cannot be read."""
        ...


class NoSecrets:
    """Knows none."""

    def find(self, name: str) -> str | None:
        return None


NO_SECRETS: Final[Secrets] = NoSecrets()


class Opened(NamedTuple):
    """A command with its secrets in place; `values` must be shown to nobody."""

    argv: list[str]
    env: dict[str, str]
    stdin: str | None
    values: list[bytes]


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_value(name: str, value: str) -> str:
    """The value, if it can be put in and be masked: what is too short is found in everything that is written."""
    if len(value) < SHORTEST or "\0" in value:
        raise BadInput(f"the value of {name!r} cannot be a secret: give {SHORTEST} characters or more, without a NUL")
    return value


def check_name(name: str) -> str:
    """The name of a secret, if it can be one."""
    if not is_name(name):
        raise BadInput(
            f"{name!r:.80} cannot name a secret: use up to 100 letters, digits, and _ . - after the first",
            field="secret",
        )
    return name


def has_reference(argv: Sequence[str], env: Mapping[str, str], stdin: str | None) -> bool:
    """Most commands have none, and should not pay for a search."""
    if REFERENCE in "\n".join(argv):
        return True
    return bool(env or stdin) and any(text.startswith(REFERENCE) for text in (*env.values(), stdin or ""))


def may_have_reference(spec: bytes) -> bool:
    """A quick look at a spec as it came: it may say yes where there is none, and never says no in error."""
    return _QUOTED in spec or _SPELT in spec


class Opening:
    """Puts values in the place of references, and remembers them: `values` must be shown to nobody."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._found: dict[str, str] = {}

    @property
    def values(self) -> list[bytes]:
        return [value.encode() for value in self._found.values()]

    def put_in(self, text: str) -> str:
        """BadInput names a secret that is not there."""
        if not text.startswith(REFERENCE):
            return text
        if text.startswith(_ESCAPED):
            return REFERENCE + text.removeprefix(_ESCAPED)
        name = check_name(text.removeprefix(REFERENCE))
        if name not in self._found:
            self._found[name] = _demand(name, self._secrets)
        return self._found[name]

    def put_in_argument(self, text: str) -> str:
        option = _OPTION.fullmatch(text)
        return self.put_in(text) if option is None else option[1] + self.put_in(option[2])

    def put_in_all(self, value: Any) -> Any:
        """Every text in a value that came as JSON."""
        match value:
            case str():
                return self.put_in(value)
            case list():
                return [self.put_in_all(one) for one in value]
            case dict():
                return {key: self.put_in_all(one) for key, one in value.items()}
            case _:
                return value


def open_secrets(argv: Sequence[str], env: Mapping[str, str], stdin: str | None, secrets: Secrets) -> Opened:
    """Put the values in. BadInput names a secret that is not there."""
    opening = Opening(secrets)
    words = [opening.put_in_argument(text) for text in argv]
    variables = {key: opening.put_in(text) for key, text in env.items()}
    given = None if stdin is None else opening.put_in(stdin)
    return Opened(words, variables, given, opening.values)


def _demand(name: str, secrets: Secrets) -> str:
    value = secrets.find(name)
    if value is None:
        raise BadInput(
            f"this node has no secret {name!r}: set it there with `ganger secret set {name}`, and try again",
            secret=name,
        )
    return value
