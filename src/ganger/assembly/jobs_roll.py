"""The roll of workers in a file: what was counted of them, and who was here last, outlasts the server.

It is written some seconds after a change, and at the end. A server that is killed loses the last counts and nothing
else, so the file is worth neither a transaction nor a refusal to start: one that cannot be read is put aside.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from ganger.assembly.location import locate_own
from ganger.assembly.settings import Settings
from ganger.faces.jobs.workers import Roll, Workers
from ganger.runtime.faults import name_fault
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.runtime.threads import run_whole

VERSION: Final = 1
_EVERY: Final = 2.0


class _Written(msgspec.Struct, frozen=True):
    version: int
    roll: Roll


def find_roll(settings: Settings) -> Path | None:
    """The file of the roll: beside that of the store; None if the store ends with the process."""
    found = locate_own(settings)
    return None if found is None else found.database.absolute().with_name(f"{found.database.name}-workers")


class RollService(Service):
    """Keeps the roll of these workers in the file, if there is one."""

    def __init__(self, path: Path | None, workers: Workers, *, telemetry: Telemetry = SILENT) -> None:
        super().__init__("roll", telemetry=telemetry)
        self._path = path
        self._workers = workers
        self._telemetry = telemetry
        self._written = 0

    async def run(self) -> None:
        if self._path is None:
            return
        await self._load(self._path)
        try:
            while not self.draining.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EVERY):
                        await self.draining.wait()
                await self._save(self._path)
        finally:
            await self._save(self._path)

    async def _load(self, path: Path) -> None:
        try:
            found = msgspec.json.decode(await run_whole(path.read_bytes), type=_Written)
            if found.version == VERSION:
                self._workers.restore(found.roll)
        except FileNotFoundError:
            # The first start.
            return
        except (OSError, msgspec.MsgspecError) as error:
            self._telemetry.event("workers_not_read", path=str(path), error=name_fault(error))
            await run_whole(_put_aside, path)

    async def _save(self, path: Path) -> None:
        changes = self._workers.changes
        if changes == self._written:
            return
        written = msgspec.json.encode(_Written(VERSION, self._workers.call()))
        try:
            await run_whole(_replace, path, written)
        except OSError as error:
            # It is tried again with the next look; the counts are here meanwhile.
            self._telemetry.event("workers_not_written", path=str(path), error=name_fault(error))
        else:
            self._written = changes


def _put_aside(path: Path) -> None:
    with suppress(OSError):
        # Where even that cannot be, it is written over with the next change.
        path.rename(path.with_name(f"{path.name}-unreadable"))


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f"{path.name}-draft")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    draft.rename(path)
