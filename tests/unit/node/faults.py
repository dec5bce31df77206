"""Functions that break the process around them, or end in a way that is hard to tell."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ganger.node.functions.context import current
from ganger.node.functions.execution import Executor
from ganger.node.functions.note import Note
from ganger.node.functions.porter import Porter
from tests.unit.node.chores import note_run, obey, wait_for


def break_sealing() -> None:
    """What makes this one's result fails, and nobody else's."""
    _break_once(Executor, "seal", MemoryError("no room for the result"))


def print_and_break_sealing() -> None:
    print("not yours")
    break_sealing()


def break_giving() -> None:
    """What hands this one's result over fails."""
    _break_once(Porter, "give", MemoryError("no room to hand it over"))


def break_beginning() -> None:
    """What notes the next job fails before the job is known to have begun."""
    _break_once(Note, "begin", MemoryError("no room for a note"))


def _break_once(owner: type, name: str, error: BaseException) -> None:
    whole: Callable[..., Any] = getattr(owner, name)

    def broken(*args: Any, **kwargs: Any) -> Any:
        setattr(owner, name, whole)
        raise error

    setattr(owner, name, broken)


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("never")


def exit_unprintably() -> None:
    sys.exit(Silent())  # type: ignore[arg-type]


def stop_iterating() -> None:
    raise StopIteration


async def exit_from_loop() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


def begin_and_obey(path: str) -> None:
    Path(path).write_text("begun")
    obey()
    Path(path).write_text("obeyed")


async def leave_a_thread(path: str) -> None:
    """Leave a thread of the loop's own pool behind, which runs until the file is there."""
    assert not asyncio.get_running_loop().run_in_executor(None, wait_for, path).done()


async def fork_and_return_on_loop(path: str) -> str:
    """Return in two processes."""
    if os.fork() == 0:
        note_run(path)
        return "the copy"
    os.wait()  # noqa: ASYNC222 - the copy ends at once
    return f"the original of {current().task}"


def close_own_voice(path: str) -> None:
    """Leave the process without a standard error, and with a thread that would hold up its end."""
    sys.stderr = None
    threading.Thread(target=wait_for, args=(path,)).start()
    break_giving()
