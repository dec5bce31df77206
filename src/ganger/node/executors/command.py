"""Executes commands and shell scripts, through the guardian, which says how an end is judged (`guardian.run`).

A spec that is not one is a Fail that is never tried again. Beside its output an attempt leaves `result`, what it exited
with or 128 + the signal that ended it, and `cut`, how many bytes of each stream came after the cap.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ganger.core.errors import BadInput
from ganger.core.outcome import Fail
from ganger.core.task import Kind
from ganger.node.executor import Assignment, Ended
from ganger.node.guardian.messages import Caps, End, Start
from ganger.node.guardian.remote import Guardian
from ganger.node.guardian.run import SIGNALLED, GuardedRun, NeverRan, find_cut, judge, read_small
from ganger.node.guardian.ward import Ward
from ganger.node.secrets import NO_SECRETS, Opened, Secrets, has_reference, open_secrets
from ganger.node.spool import Spool
from ganger.wire.cuts import add_cut
from ganger.wire.specs import CommandSpec, Limits, ShellSpec, decode
from ganger.wire.surroundings import check_surroundings

_LONGEST_ARGUMENT: Final = 100_000
_FEWEST_AHEAD: Final = 16
"""On a few slots so many short ones last for the milliseconds until the node was told of ends and has sent others."""


class Home(NamedTuple):
    """What every command has if its spec says nothing else: PATH, HOME, LANG and USER, and where it runs."""

    environment: Mapping[str, str]
    folder: Path


class CommandExecutor:
    """Commands and shell scripts, no more at once than there are `slots`; without that, as many as it is given."""

    kinds: Sequence[str] = (Kind.COMMAND, Kind.SHELL)

    def __init__(self, guardian: Guardian, home: Home, slots: int = 0, secrets: Secrets = NO_SECRETS) -> None:
        self._guardian = guardian
        self._home = home
        self._slots = slots
        self._secrets = secrets
        self._folder = Path(guardian.post.folder.spool)
        self._spool = Spool(self._folder, guardian.post.cap)

    @property
    def ahead(self) -> int:
        """Enough that the guardian has the next at hand when a slot is free, and need not wait for the node."""
        return max(_FEWEST_AHEAD, 2 * self._slots) if self._slots and self._guardian.has_queue else 0

    @property
    def spool(self) -> Spool:
        """Where the output of its attempts is. The folder is there once an attempt was started or adopted."""
        return self._spool

    async def start(self, assignment: Assignment) -> GuardedRun | NeverRan:
        try:
            order = make_order(assignment, self._home, self._slots, self._secrets)
        except BadInput as error:
            return NeverRan(assignment, Fail(reason=str(error), again=False))
        return self._take_on(await self._guardian.start(order))

    async def adopt(self) -> Sequence[GuardedRun]:
        return [self._take_on(ward) for ward in await self._guardian.adopt()]

    def _take_on(self, ward: Ward) -> GuardedRun:
        return GuardedRun(ward, self._conclude)

    def _conclude(self, end: End) -> Ended:
        return Ended(judge(end), _gather(end, self._folder), tuple(end.streams))

    async def close(self, *, leave_running: bool) -> None:
        await self._guardian.close(leave_running=leave_running)


def make_order(assignment: Assignment, home: Home, room: int = 0, secrets: Secrets = NO_SECRETS) -> Start:
    """What the guardian is told to start; BadInput says what is wrong with the spec."""
    claimed = assignment.claimed
    spec = _read(claimed.kind, assignment.spec)
    argv, script = _program(spec)
    check_surroundings(spec)
    opened = _open(spec, argv, secrets)
    return Start(
        claimed.id,
        claimed.fence,
        opened.argv,
        {**home.environment, **_lead_with_venv(home, opened.env), **assignment.environment},
        str(home.folder) if spec.cwd is None else spec.cwd,
        assignment.trusted_until,
        stdin=None if opened.stdin is None else opened.stdin.encode(),
        script=script,
        merge=spec.merge,
        caps=_cap(spec.limits),
        grace=spec.grace,
        timeout=claimed.timeout,
        room=room,
        masks=opened.values,
    )


def _lead_with_venv(home: Home, env: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of a spec. One that names a virtual environment, and no PATH, finds its programs first."""
    venv, path = env.get("VIRTUAL_ENV"), home.environment.get("PATH")
    if not venv or not path or "PATH" in env:
        return env
    return {**env, "PATH": f"{venv}/bin:{path}"}


def _open(spec: CommandSpec | ShellSpec, argv: list[str], secrets: Secrets) -> Opened:
    """The command with its secrets in place. A script is no place for one: it is searched by nobody."""
    words = argv if isinstance(spec, CommandSpec) else []
    if not has_reference(words, spec.env, spec.stdin):
        return Opened(argv, spec.env, spec.stdin, [])
    opened = open_secrets(words, spec.env, spec.stdin, secrets)
    return opened if words else opened._replace(argv=argv)


def _read(kind: str, spec: bytes) -> CommandSpec | ShellSpec:
    found: CommandSpec | ShellSpec = decode(spec, ShellSpec if kind == Kind.SHELL else CommandSpec)
    return found


def _program(spec: CommandSpec | ShellSpec) -> tuple[list[str], bytes | None]:
    """The arguments, and the script where it is too long to be one of them."""
    if isinstance(spec, CommandSpec):
        return spec.argv, None
    script = spec.script.encode()
    if len(script) <= _LONGEST_ARGUMENT:
        return ["bash", "-c", spec.script], None
    return ["bash", "/dev/fd/3"], script


def _cap(limits: Limits) -> Caps:
    return Caps(limits.cpu, limits.memory, limits.files, limits.output)


def _gather(end: End, spool: Path) -> dict[str, bytes]:
    """The data that an attempt leaves: its exit code, what it said if that is little, and what was cut off."""
    data = read_small(end, spool)
    code = end.code if end.signal is None else SIGNALLED + end.signal
    if code is not None:
        data["result"] = str(code).encode()
    return add_cut(data, *find_cut(end))
