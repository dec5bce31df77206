"""What the commands that make a task of a command or a script have in common: their options, and their answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ganger.cli.printing import print_json, tell
from ganger.cli.words import read_duration, read_variable

if TYPE_CHECKING:
    from ganger.engine.store import Submitted

Command = TypeVar("Command", bound=Callable[..., Any])

PLAIN: Final[dict[str, Any]] = {
    "script": None,
    "delay": 0,
    "key": None,
    "once": False,
    "parents": (),
    "labels": (),
    "stdin": None,
    "description": None,
}
"""What is meant by those who have no option for it."""

take_script = click.option("--shell", "script", metavar="SCRIPT", help="A bash script in place of a command.")
take_priority = click.option(
    "--priority", type=click.IntRange(0, 4294967295), default=1024, metavar="N", help="Smaller is sooner (1024)."
)

_ONE: Final = (
    click.option("--timeout", type=read_duration, metavar="DURATION", help="Kill it after so long."),
    click.option("--retries", type=click.IntRange(0), metavar="N", help="Try so many times again after a failure."),
    click.option("--cwd", type=click.Path(), help="The folder it runs in (default: this one)."),
    click.option(
        "--env",
        type=read_variable,
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Add to its environment; NAME alone takes the value from here.",
    ),
    click.option("--stdin", metavar="FILE", help="What it reads: a file, or - for what comes in here."),
    click.option("--label", "labels", multiple=True, help="Only on nodes with this label; repeatable."),
)
_EACH: Final = (
    click.option("--timeout", type=read_duration, metavar="DURATION", help="Kill each after so long."),
    click.option("--retries", type=click.IntRange(0), metavar="N", help="Try each so often again after a failure."),
    click.option("--cwd", type=click.Path(), help="The folder they run in (default: this one)."),
    click.option(
        "--env",
        type=read_variable,
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Add to their environment; NAME alone takes the value from here.",
    ),
)
_NAMED: Final = (
    click.option("--key", help="A name that only one task may have; refused if another has it."),
    click.option("--once", is_flag=True, help="With --key: if a task has the key, print its id instead."),
    click.option("--description", help="What people see in lists (default: the command)."),
)


def take_running(command: Command) -> Command:
    """Give a command the options of how its task is run."""
    return _take(_ONE, command)


def take_each_running(command: Command) -> Command:
    """The same, for many tasks."""
    return _take(_EACH, command)


def take_naming(command: Command) -> Command:
    """Give a command the options of what its task is called."""
    return _take(_NAMED, command)


def _take(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def check_work(given: dict[str, Any]) -> None:
    """Refuse what is neither a command nor a script, or both."""
    if bool(given["command"]) == (given["script"] is not None):
        raise click.UsageError("give either a command after -- or a script with --shell")
    if given.get("once") and given["key"] is None:
        raise click.UsageError("--once needs a --key")


def read_stdin(place: str | None, *, offered: bool = False) -> str | None:
    """What a command is to read: a file, `-` for standard input, None for nothing.

    With `offered`, standard input is taken without being asked for, if it is a file or a pipe.
    """
    if place is None and not (offered and _is_offered()):
        return None
    body = _read_here() if place in {None, "-"} else _read_file(str(place))
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise click.UsageError(
            "what a command reads is kept as UTF-8, and this is none: name a file to it instead"
        ) from None


def _is_offered() -> bool:
    import os
    import stat
    import sys

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_here() -> bytes:
    import select
    import sys

    if not select.select([sys.stdin], [], [], 1)[0]:
        tell("reading standard input to its end; `</dev/null` gives it none")
    return sys.stdin.buffer.read()


def _read_file(place: str) -> bytes:
    from pathlib import Path

    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--stdin {place}: {error.strerror}") from None


def print_made(made: "Submitted", key: str | None, as_json: bool) -> None:
    """The id of a task that was stored, or had the key already."""
    if made.existing:
        tell(f"ganger: a task has the key {key!r} already; nothing was added")
    if as_json:
        print_json({"id": made.ids[0], "existed": bool(made.existing)})
    else:
        click.echo(made.ids[0])
