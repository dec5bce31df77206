"""`python -m ganger.node.functions WORDS`: a warm process and the one that watches it; started by a node alone."""

import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from ganger.node.functions.charge import Charge
from ganger.node.functions.dying import die
from ganger.node.functions.warden import bind_to_parent, start_watch, watch
from ganger.runtime.clock import SystemClock
from ganger.runtime.descriptors import bound_files


def main(words: list[str]) -> int:
    """Be the warden of a child that does the work."""
    charge = Charge.read(words)
    if charge.files:
        bound_files(charge.files)
    start_watch()
    warden = os.getpid()
    worker = os.fork()
    if worker == 0:
        _work(charge, warden)
    for fd in (charge.jobs, charge.results, charge.outbox):
        os.close(fd)
    return watch(charge, SystemClock(), worker)


def _work(charge: Charge, warden: int) -> NoReturn:
    try:
        bind_to_parent(warden)
        os.close(charge.lifeline)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        # The warden stays small: what executes functions is loaded behind the fork alone.
        import_module("ganger.node.functions.worker").work(charge, SystemClock())
    except BaseException:
        die()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
