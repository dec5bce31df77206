"""A command under a lock, seen from the process that holds the lock: the keeper is told how long to trust it."""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ganger.cli.printing import tell
from ganger.core.errors import BadInput

if TYPE_CHECKING:
    import socket

    from ganger.coordination.hold import Hold

LOST_EXIT: Final = 75
"""Try again: the lock was lost while the command ran."""
NOT_STARTED_EXIT: Final = 69
_PULSE: Final = 0.05


async def run_under(hold: "Hold", command: Sequence[str], link: "socket.socket") -> int:
    """Have the keeper run the command, and give the lock back.

    The command's exit code, 128 + n if signal n ended it, 69 if it could not be run, 75 if the lock was lost.
    """
    from ganger.assembly.settings import find_surroundings

    reader, writer = await asyncio.open_connection(sock=link)
    loop = asyncio.get_running_loop()
    # A terminal sends Ctrl-C to the command as well: what becomes of that is the command's own affair.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, lambda: _send(writer, {"signal": signal.SIGTERM}))
    told = {"GANGER_LOCK": hold.name, "GANGER_EPOCH": str(hold.epoch)}
    _send(writer, {"run": list(command), "environment": {**find_surroundings(), **told}, "trusted": hold.deadline})
    pulse = asyncio.create_task(_beat(hold, writer), name="pulse of the keeper")
    try:
        line = await reader.readline()
        return _judge(hold, command, json.loads(line) if line else {"lost": True})
    finally:
        pulse.cancel()
        writer.close()
        await hold.release()


async def _beat(hold: "Hold", writer: asyncio.StreamWriter) -> None:
    """Say until when the lock is trusted, whenever that has changed; at once when it is lost."""
    said = hold.deadline
    while hold.reason is None:
        if hold.deadline != said:
            said = hold.deadline
            _send(writer, {"trusted": said})
        try:
            async with asyncio.timeout(_PULSE):
                await hold.ended.wait()
        except TimeoutError:
            continue
    _send(writer, {"trusted": 0})


def _send(writer: asyncio.StreamWriter, said: Mapping[str, Any]) -> None:
    writer.write(json.dumps(said).encode() + b"\n")


def _judge(hold: "Hold", command: Sequence[str], said: Mapping[str, Any]) -> int:
    if "failed" in said:
        tell(f"ganger: {command[0]} can not be run: {said['failed']}")
        return NOT_STARTED_EXIT
    if "code" in said:
        return int(said["code"])
    why = f": {hold.reason}" if hold.reason else ""
    tell(f"ganger: the lock {hold.name!r} was lost, so the command was killed{why}")
    return LOST_EXIT


def check_command(command: Sequence[str]) -> None:
    if not command:
        raise BadInput("name the command to run under the lock: ganger lock NAME -- COMMAND ARGUMENTS")
