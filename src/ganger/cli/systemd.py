"""`ganger systemd`: a unit file for a node of this machine."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from ganger.cli.opening import name_operator, take_store
from ganger.core.errors import BadInput, NotFound

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
ExecStart={program} up --quiet --store {store} --name {name} --grace {grace}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={folder}
{user}Restart=on-failure
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

# These hold for commands as well: take out what yours need.
UMask=0077
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
GRACE: Final = "5m"
TIMEOUT: Final = 330
"""Seconds: the grace, and some for what follows."""


@click.command()
@take_store
@click.option("--name", default="%H", metavar="NAME", help="The node's name (default: the machine's).")
@click.option("--user", "for_user", is_flag=True, help="A unit of your own, for systemctl --user.")
def systemd(store: str | None, name: str, for_user: bool) -> None:
    """Print a unit file that runs a node on the store under systemd, as the user who asks."""
    from ganger.assembly.location import is_served, locate_own
    from ganger.assembly.settings import load

    settings = load(Path.cwd(), store=store)
    own = locate_own(settings)
    if own is None:
        raise BadInput("a store that ends with its process needs no unit: name one with --store sqlite:PATH")
    folder = own.database.absolute().parent
    address = settings.store if is_served(settings) else f"sqlite:{own.database.absolute()}"
    place = "~/.config/systemd/user/ganger.service" if for_user else "/etc/systemd/system/ganger.service"
    unit = UNIT.format(
        place=place, scope="--user " if for_user else "", unit="ganger", name=quote(name, specifiers=True),
        program=_find_program(), store=quote(address), grace=GRACE,
        folder=_escape(str(folder)), user="" if for_user else f"User={name_operator()}\n", timeout=TIMEOUT,
        hardening="" if for_user else SYSTEM_HARDENING, target="default.target" if for_user else "multi-user.target",
    )  # fmt: skip
    click.echo(unit, nl=False)


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
