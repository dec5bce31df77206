"""The command `ganger`."""

import atexit
import errno
import gc
import os
import sys
from typing import Final

import click

from ganger import __version__
from ganger.cli.loading import Commands
from ganger.cli.overview import Overview
from ganger.cli.printing import clean, tell
from ganger.core.errors import BadInput, Conflict, Damage, GangerError, NotFound, StoreError, TurnedAway

_PLACES: Final = {
    "add": "add:add",
    "audit": "audit:audit",
    "backup": "backup:backup",
    "cancel": "cancel:cancel",
    "completion": "completion:completion",
    "disbatch": "disbatch:disbatch",
    "doctor": "doctor:doctor",
    "drain": "drain:drain",
    "edit": "edit:edit",
    "events": "events:events",
    "export": "export:export",
    "family": "family:family",
    "graph": "graph:graph",
    "hold": "hold:hold",
    "if": "conditions:ask_once",
    "import": "importing:import_tasks",
    "kick": "kick:kick",
    "kill": "kill:kill",
    "leader": "leader:leader",
    "lock": "lock:lock",
    "logs": "logs:logs",
    "ls": "ls:ls",
    "map": "map:map_items",
    "members": "cluster_members:members",
    "node": "node:node",
    "nodes": "nodes:nodes",
    "progress": "progress:progress",
    "queue": "queue:queue",
    "restore": "restore:restore",
    "result": "result:result",
    "retry": "retry:retry",
    "rm": "rm:rm",
    "run": "run:run",
    "schedule": "schedule:schedule",
    "secret": "secret:secret",
    "server": "server:server",
    "show": "show:show",
    "stats": "stats:stats",
    "submit": "submit:submit",
    "systemd": "systemd:systemd",
    "token": "token:token",
    "top": "top:top",
    "until": "conditions:until",
    "up": "up:up",
    "wait": "wait:wait",
    "why": "why:why",
    "worker": "worker:worker",
    "workers": "workers:workers",
}
"""The module and the command in it, by name."""

_EXITS: Final[tuple[tuple[type[GangerError], int], ...]] = (
    (BadInput, 2),
    (NotFound, 3),
    (Conflict, 4),
    (StoreError, 5),
    (Damage, 6),
    (TurnedAway, 7),
)
_INTERRUPTED: Final = 130


class Door(Overview):
    """Tells an error of ours as one line on standard error, with its code, and exits with the number of its branch."""

    def invoke(self, ctx: click.Context) -> object:
        # What is loaded stays to the end: the collector need not look through all of it when the process ends.
        atexit.register(gc.freeze)
        try:
            return super().invoke(ctx)
        except GangerError as error:
            tell(f"ganger: {clean(error.message)} [{error.code}]")
            sys.exit(choose_exit(error))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            tell(f"ganger: {clean(str(error))}")
            _drop_output()
            sys.exit(1)


def _drop_output() -> None:
    """What could not be written is not tried again at the end of the process."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def choose_exit(error: GangerError) -> int:
    """2 a wrong request, 3 not found, 4 not as things stand, 5 the store cannot serve, 6 damage, 7 refused, else 1."""
    return next((code for kind, code in _EXITS if isinstance(error, kind)), 1)


@click.group(cls=Door, commands=Commands(_PLACES))
@click.version_option(__version__, prog_name="ganger")
def main() -> None:
    """Ganger gives every piece of work to a worker, watches it, and never loses it."""
