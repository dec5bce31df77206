"""`python -m ganger.node.guardian RUN`: starts a guardian that outlives its starter, and says when it is ready."""

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.journal import NewerFormat
from ganger.node.guardian.recovery import Taken
from ganger.node.guardian.service import Charge, guard
from ganger.node.isolation import Isolation
from ganger.runtime.clock import SystemClock
from ganger.runtime.descriptors import bound_files

READY: Final = b"ready\n"
_LARGEST_LOG: Final = 1 << 20


def main(argv: list[str]) -> int:
    """Wait for the guardian's first word and pass it on: `ready`, or why it cannot be."""
    charge = _parse(argv)
    if charge.files:
        bound_files(charge.files)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        os.close(reader)
        _live(charge, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as words:
        said = words.read()
    # Whoever asked may have been killed; the guardian goes on all the same.
    with suppress(BrokenPipeError):
        os.write(1, said)
    return 0 if said == READY else 1


def _parse(argv: list[str]) -> Charge:
    parser = argparse.ArgumentParser(prog="python -m ganger.node.guardian")
    parser.add_argument("run", help="the run folder of the node")
    parser.add_argument("--cap", type=int, default=1 << 30, help="the most bytes that a stream keeps")
    parser.add_argument("--linger", type=int, default=60_000, help="ms to stay when there is nothing to keep")
    parser.add_argument("--isolation", type=Isolation, default=Isolation.AUTO, choices=list(Isolation))
    parser.add_argument("--files", type=int, default=0, help="how many files programs may have open; 0: as it is")
    given = parser.parse_args(argv)
    return Charge(RunFolder(os.path.abspath(given.run)), given.cap, given.linger, given.isolation, given.files)


def _live(charge: Charge, writer: int) -> NoReturn:
    status = 1
    try:
        _detach(charge.folder)
        guard(charge, SystemClock(), _say_once(writer))
        status = 0
    except (Taken, NewerFormat, OSError) as error:
        os.write(writer, f"{error}\n".encode())
    except BaseException:
        # The last word goes to the log, which is standard error by now.
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def _say_once(writer: int) -> Callable[[], None]:
    def say() -> None:
        os.write(writer, READY)
        os.close(writer)

    return say


def _detach(folder: RunFolder) -> None:
    """Nothing of whoever started us stays but its umask, which is for commands: not its session, its terminal, its
    folder, its files. Our own files lie in a folder that nobody else may enter.
    """
    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    if os.fstat(log).st_size > _LARGEST_LOG:
        os.ftruncate(log, 0)
    for source, target in ((null, 0), (null, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
