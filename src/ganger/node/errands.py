"""Commands that conditions ask about, run by a guardian of their own: they take no slot and hold no lease.

What can go wrong, and why this is right:

- *The node dies.* The guardian keeps the command's time by itself and ends its whole tree; nobody hears the answer. The
  next node of the same name ends what is left before it asks anything, and asks again.
- *The guardian dies.* The next one ends what it left before it takes an order. The question has no answer then, which
  is not a no: whoever asked is told so and asks again.
- *The command takes too long, or daemonises.* Its tree is ended (TERM, a second, KILL) before the answer is given, and
  too long is a no. What it prints is thrown away, so that no probe fills a disk.
- *Its program is not there.* That is no answer either: a question that is misspelt must not choose a branch.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, GangerError, StoreUnavailable
from ganger.node.guardian.messages import Caps, End, Start
from ganger.node.guardian.remote import Guardian
from ganger.node.guardian.run import SIGNALLED, TIMED_OUT
from ganger.node.guardian.ward import Ward
from ganger.node.spool import Spool, SpoolKey
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import Telemetry
from ganger.wire.questions import check_command
from ganger.wire.specs import CommandExits

GRACE: Final = 1_000
LONGEST: Final = 3_600_000
_SLACK: Final = 5_000
"""The guardian keeps the time-out; its trust in the node ends so much later, if it could not."""


class Errands:
    """Runs commands for probes, in this environment, and in this folder if they name none.

    Open it before the first one, close it after the last.
    """

    def __init__(
        self,
        guardian: Guardian,
        clock: Clock,
        telemetry: Telemetry,
        *,
        epoch: int,
        environment: Mapping[str, str],
        folder: Path,
    ) -> None:
        self._guardian = guardian
        self._clock = clock
        self._telemetry = telemetry
        self._epoch = epoch
        self._environment = dict(environment)
        self._folder = folder
        self._numbers = count(1)
        self._spool = Path(guardian.post.folder.spool)

    async def open(self) -> None:
        """End what a former node of the same name left."""
        try:
            left = await self._guardian.adopt()
            for ward in left:
                ward.stop("shutdown", "the node that asked is gone")
            for ward in left:
                await ward.ended()
                ward.forget()
            _sweep(self._spool)
        except (GangerError, OSError) as error:
            # It ends by its own time-out; nothing that this node is asked depends on it.
            self._telemetry.event("probes_not_ended", error=name_fault(error))

    async def close(self) -> None:
        """End everything, and wait for that."""
        await self._guardian.close(leave_running=False)

    async def run(self, probe: CommandExits) -> int:
        """The exit code. BadInput: no machine, or not this one, can start it. StoreUnavailable: there is no answer."""
        order = self._order(probe)
        ward = await self._guardian.start(order)
        try:
            end = await ward.ended()
        except asyncio.CancelledError:
            ward.abandon()
            raise
        self._forget(ward, end)
        return judge(end)

    def _order(self, probe: CommandExits) -> Start:
        check_command(probe)
        timeout = min(max(1, probe.timeout), LONGEST)
        return Start(
            next(self._numbers),
            self._epoch,
            probe.argv,
            self._environment,
            str(self._folder) if probe.cwd is None else probe.cwd,
            self._clock.now() + timeout + GRACE + _SLACK,
            merge=True,
            caps=Caps(output=0),
            grace=GRACE,
            timeout=timeout,
        )

    def _forget(self, ward: Ward, end: End) -> None:
        ward.forget()
        try:
            for stream in end.streams:
                Spool(self._spool, 0).remove(SpoolKey(ward.task, ward.fence, stream))
        except GangerError as error:
            self._telemetry.event("output_not_removed", task=ward.task, error=error.code)


def _sweep(folder: Path) -> None:
    """What was cut off in between has left marks of what it printed."""
    for path in folder.iterdir() if folder.exists() else ():
        path.unlink(missing_ok=True)


def judge(end: End) -> int:
    """The exit code that an end means; a signal is 128 more than its number, as a shell has it."""
    match end.why:
        case "exit":
            return SIGNALLED + end.signal if end.signal is not None else end.code or 0
        case "timeout":
            return TIMED_OUT
        case "program":
            raise BadInput(f"the command of the condition cannot be run: {end.text}", field="argv")
        case _:
            raise StoreUnavailable(f"the command of the condition has no answer: {end.text or end.why}")
