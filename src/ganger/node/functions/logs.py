"""What functions say by `logging` goes to the stream `log` of their task, with a level.

A program that configures logging by itself keeps what it configured: this is for one that has no handler.
"""

import logging
import sys
from typing import Final

from ganger.node.functions.context import CURRENT

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_level(level: str) -> None:
    """From which level on loggers tell that have none of their own; before any code of users, which may set another."""
    logging.getLogger().setLevel(level.upper())


def hear_logging() -> None:
    """Show what is logged, unless the program has seen to that; called when code of users was imported."""
    root = logging.getLogger()
    if not root.handlers:
        handler = _TaskHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(handler)


class _TaskHandler(logging.Handler):
    """Writes for the task of whoever logs; what a thread without one says goes where its prints go."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n"
            context = CURRENT.get(None)
            if context is None:
                sys.stderr.write(line)
            else:
                context.pen("log").write(line)
        except Exception:
            self.handleError(record)
