"""What a task of each kind says in its spec: JSON that every door can read, typed here once.

A spec is bytes to the engine and the store. Whoever submits encodes one of these, whoever executes decodes it. Unknown
fields are kept out, so that a misspelt one is an error at submit and not a setting that silently does nothing.
"""

from typing import Any, Literal

import msgspec

from ganger.core.errors import BadInput
from ganger.core.task import Kind
from ganger.wire.unreadable import UNREADABLE


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Bounds of one command; None is none. `cpu` in seconds, `memory`, `output` in bytes (of each stream)."""

    cpu: int | None = None
    memory: int | None = None
    files: int | None = None
    output: int | None = None


class Surroundings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What commands and shell scripts have in common.

    `env` is added to a clean environment. `merge` gives the command one pipe for both streams, so that `mixedout` has
    their exact order. `grace` is the time in ms between TERM and KILL.
    """

    cwd: str | None = None
    env: dict[str, str] = {}
    stdin: str | None = None
    merge: bool = False
    limits: Limits = Limits()
    grace: int = 5_000


class CommandSpec(Surroundings, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A program and its arguments, run as they are, without a shell."""

    argv: list[str]


class ShellSpec(Surroundings, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A bash script."""

    script: str


class FunctionSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A Python function by its import path `module:name`. A reference {"$task": id} among the arguments is that task's
    result. `mode`: where it runs; None leaves it to the node (processes for sync functions, the loop for async ones).
    """

    path: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    mode: Literal["process", "thread", "loop"] | None = None
    grace: int = 5_000


class PluginSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a plugin is given: the parameters, as the submitter wrote them."""

    params: Any = None


class AtTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="time"):
    """True from this wall time on (ms since 1970)."""

    at: int


class AfterDelay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="delay"):
    """True so many ms after the condition's parents are done."""

    ms: int


class FileThere(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="file"):
    """True when the file exists, or is gone, on a node with the condition's labels."""

    path: str
    gone: bool = False


class PortAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="port"):
    """True when a TCP connection to this place is accepted."""

    host: str
    port: int


class UrlAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="url"):
    """True when a GET is answered with this status (any 2xx if None)."""

    url: str
    status: int | None = None


class CommandExits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="command"):
    """True when the command exits with 0 within `timeout` ms, on a node with the condition's labels. It takes no slot.

    `cwd` None is the home of the node's user.
    """

    argv: list[str]
    timeout: int = 30_000
    cwd: str | None = None


class Expression(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="if", tag="expression"):
    """True when the expression over the parents' results is: `parent[22].result == 0 and parent[23].status == 1`."""

    text: str


PlacedProbe = FileThere | PortAnswers | UrlAnswers | CommandExits
"""A question whose answer depends on where it is asked."""


def list_askers(probe: PlacedProbe) -> frozenset[str]:
    """A node asks it that takes one of these kinds: whoever runs commands may ask anything, and only he runs one."""
    programs = frozenset({Kind.COMMAND.value, Kind.SHELL.value})
    return programs if isinstance(probe, CommandExits) else programs | {Kind.CONDITION.value}


Probe = AtTime | AfterDelay | FileThere | PortAnswers | UrlAnswers | CommandExits | Expression


class ConditionSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A probe, and how it is asked. `wait`: ask until it is true or `deadline` ms have passed; else ask once (if/else).

    At the deadline a wait fails, unless `otherwise` says that its `else` children go on.
    """

    probe: Probe
    wait: bool = True
    every: int = 1_000
    deadline: int | None = None
    otherwise: bool = False


def due_of(spec: ConditionSpec) -> int | None:
    """The wall time before which nobody needs to look at a condition, if there is one."""
    if isinstance(spec.probe, AtTime) and spec.wait and spec.deadline is None:
        return max(0, spec.probe.at)
    return None


Spec = CommandSpec | ShellSpec | FunctionSpec | PluginSpec | ConditionSpec


def encode(spec: Spec) -> bytes:
    return msgspec.json.encode(spec)


def decode(spec: bytes, kind: type[msgspec.Struct]) -> Any:
    """The spec of a task; BadInput says what is wrong in it."""
    try:
        return msgspec.json.decode(spec, type=kind)
    except UNREADABLE as error:
        raise BadInput(f"the spec is not one of its kind: {error}") from None
