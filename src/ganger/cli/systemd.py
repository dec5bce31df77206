"""`ganger systemd`: a unit file for a node of this machine."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ganger.cli.opening import name_operator
from ganger.cli.printing import tell
from ganger.cli.up import make_options, read_settings, up
from ganger.cli.words import say_duration
from ganger.core.errors import BadInput, NotFound

if TYPE_CHECKING:
    from ganger.assembly.settings import Settings

UNIT: Final = """\
# A node of Ganger. Put this into {place} and run
#   systemctl {scope}daemon-reload && systemctl {scope}enable --now {unit}
# stop drains: commands get {grace} to finish. reload and restart leave commands running and go on with them.
[Unit]
Description=Ganger node {name}
After=local-fs.target network.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} up --quiet --store {store} --name {name} --grace {grace}{options}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={folder}
{user}{environment}Restart=on-failure
RestartSec=2

# Only the node hears of a stop. Its guardians and their commands are to outlive a restart, and end by themselves when
# the node has drained, or when nobody goes on with them in time.
KillMode=process
KillSignal=SIGTERM
RestartKillSignal=SIGUSR1
TimeoutStopSec={timeout}
TimeoutStartSec=120
SendSIGKILL=yes

# A command that is killed for its use of memory is that command's failure, and not the node's.
OOMPolicy=continue
Delegate=yes
LimitNOFILE=65536
TasksMax=infinity

# These hold for commands as well: take out what yours need. What they write others may read, as ever (UMask=).
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RestrictRealtime=yes
{hardening}
[Install]
WantedBy={target}
"""
SYSTEM_HARDENING: Final = """\
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
"""
GRACE: Final = 300_000
AFTERWARDS: Final = 30_000
"""Milliseconds: how long a stop waits for what runs, and for what follows."""

_OURS: Final = frozenset({"store", "url", "name", "grace", "quiet"})
"""Options of `up` that the unit says by itself, or has no use for."""

_SPELT: Final[dict[str, Callable[[Any], str]]] = {
    "handover": say_duration,
    "lease": say_duration,
    "recycle_bytes": "{}B".format,
    "paths": os.path.abspath,
}
"""How a value is written that was read into another form, or that means something else in another folder."""


@click.command(params=[part for part in up.params if part.name != "quiet"])
@click.option("--user", "for_user", is_flag=True, help="A unit of your own, for systemctl --user.")
def systemd(store: str | None, name: str | None, for_user: bool, **given: Any) -> None:
    """Print a unit file that runs a node on the store under systemd, as the user who asks; with the options of `up`."""
    from ganger.assembly.location import is_remote, is_served, locate_own
    from ganger.core.address import strip_password

    settings, _ = read_settings(store, given)
    # What `up` would refuse, it must not refuse only when the machine starts.
    make_options({**given, "name": name}, settings)
    own = locate_own(settings)
    if own is None and not is_remote(settings):
        raise BadInput("a store that ends with its process needs no unit: name one with --store sqlite:PATH")
    folder = Path.cwd() if own is None else own.database.absolute().parent
    address = (
        strip_password(settings.store) if own is None or is_served(settings) else f"sqlite:{own.database.absolute()}"
    )
    if not address.startswith("sqlite:") and address != settings.store and not settings.store_password_file:
        tell("the password is not in the unit: put it into a file that store_password_file names, or into ~/.pgpass")
    place = "~/.config/systemd/user/ganger.service" if for_user else "/etc/systemd/system/ganger.service"
    grace = GRACE if given["grace"] is None else given["grace"]
    unit = UNIT.format(
        place=place, scope="--user " if for_user else "", unit="ganger", name=quote(name or "%H", specifiers=True),
        program=_find_program(), store=quote(address), grace=say_duration(grace), options=_say_options(given),
        folder=_escape(str(folder)), user="" if for_user else f"User={name_operator()}\n",
        environment=_name_password(settings),
        timeout=-(-(grace + AFTERWARDS) // 1_000), hardening="" if for_user else SYSTEM_HARDENING,
        target="default.target" if for_user else "multi-user.target",
    )  # fmt: skip
    click.echo(unit, nl=False)


def _name_password(settings: "Settings") -> str:
    """The file that has the password: others may read a unit."""
    if not settings.store_password_file:
        return ""
    path = Path.cwd() / settings.store_password_file
    return f"Environment={quote(f'GANGER_STORE_PASSWORD_FILE={path}')}\n"


def _say_options(given: Mapping[str, Any]) -> str:
    """The options of `up` that were given, as a command line has them."""
    words: list[str] = []
    for part in up.params:
        value = given.get(part.name or "")
        if part.name in _OURS or value in (None, False, ()):
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words.append(part.opts[0])
            words += [] if one is True else [quote(_SPELT.get(part.name or "", str)(one))]
    return "".join(f" {word}" for word in words)


def _find_program() -> str:
    """The command by its whole path: systemd knows no PATH of ours."""
    beside = Path(sys.executable).with_name("ganger")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("ganger")
    if found is None:
        raise NotFound("the program `ganger` is neither beside this Python nor on the path: install it there")
    return quote(found)


def quote(text: str, *, specifiers: bool = False) -> str:
    """A word of a command line, as systemd reads it."""
    if not text.isprintable():
        raise BadInput(f"{text!r:.80} has characters that no unit file can hold")
    kept = text if specifiers else _escape(text)
    if not any(char in kept for char in " \t\"'\\$;"):
        return kept
    escaped = kept.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'


def _escape(text: str) -> str:
    return text.replace("%", "%%")
