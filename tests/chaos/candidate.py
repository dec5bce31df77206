"""A process that stands for several leads, and writes under each to a database that checks epochs.

python -m tests.chaos.candidate ADDRESS DATABASE LOG LOCKS TTL. Each act is a line of the log: the lock, the epoch, and
the moment on the machine's boot clock *before* the lock was checked and found to be trusted. When a lead is lost, one
more write is sent without asking, as a process would that was stopped behind its last look.
"""

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import suppress
from typing import TextIO

from ganger.assembly.coordination import open_coordination
from ganger.coordination.coordination import Coordination
from ganger.coordination.fence import raise_epoch
from ganger.coordination.hold import Hold
from ganger.core.errors import LockLost, StaleEpoch
from ganger.runtime.clock import SystemClock

PAUSE = 0.03


class Writer:
    """Writes under epochs, and says so."""

    def __init__(self, database: str, log: TextIO) -> None:
        self._connection = sqlite3.connect(database, timeout=60, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")
        self._log = log
        self._clock = SystemClock()

    def act(self, hold: Hold) -> None:
        """One thing done under the lock, after a look whether it is held."""
        at = self._clock.now()
        hold.check()
        self._write(hold)
        self._tell("act", hold, at)

    def act_late(self, hold: Hold) -> None:
        """One thing done by a process that does not know that its time is over."""
        try:
            self._write(hold)
        except StaleEpoch:
            self._tell("refused", hold, self._clock.now())

    def _write(self, hold: Hold) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            raise_epoch(self._connection, hold.name, hold.epoch)
            row = (hold.name, hold.epoch.term, hold.epoch.number, os.getpid())
            self._connection.execute("INSERT INTO act (lock, term, number, pid) VALUES (?, ?, ?, ?)", row)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _tell(self, what: str, hold: Hold, at: int) -> None:
        line = {"what": what, "lock": hold.name, "epoch": list(hold.epoch), "at": at, "pid": os.getpid()}
        self._log.write(f"{json.dumps(line)}\n")
        self._log.flush()


async def lead(writer: Writer, hold: Hold) -> None:
    try:
        with suppress(LockLost, StaleEpoch):
            while hold.is_trusted:
                writer.act(hold)
                await asyncio.sleep(PAUSE)
    finally:
        if not hold.is_trusted:
            writer.act_late(hold)


async def stand(coordination: Coordination, writer: Writer, locks: int, ttl: int) -> None:
    candidates = [
        coordination.candidate(f"lead-{number}", lambda hold: lead(writer, hold), ttl=ttl) for number in range(locks)
    ]
    for candidate in candidates:
        await candidate.start()
    print("standing", flush=True)
    await asyncio.Event().wait()


async def main() -> None:
    address, database, log, locks, ttl = sys.argv[1:]
    with open(log, "a") as lines:  # noqa: ASYNC230 - nothing else happens yet
        writer = Writer(database, lines)
        async with open_coordination(address) as coordination:
            await stand(coordination, writer, int(locks), int(ttl))


if __name__ == "__main__":
    asyncio.run(main())
