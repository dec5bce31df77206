"""A forked child has copies of its parent's descriptors, and of its database connections: it must use neither.

The lock of the seat belongs to an open file, so a child that keeps its copy keeps the seat after its parent's death,
and nobody can own the file any more. A copy of a socket keeps the other end from seeing that the parent is gone. So the
child closes its copies at once. A connection of SQLite is another matter: its mutex may have been held by a thread that
the child does not have, and freeing it would wait for ever. So the child keeps it, for ever.
"""

import ctypes
import os
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """What a child must let go of."""

    def abandon(self) -> None: ...


def abandon_in_child(thing: Abandonable) -> None:
    """From now on a forked child abandons this, if it is still there."""
    reference = weakref.ref(thing)

    def abandon() -> None:
        if (found := reference()) is not None:
            found.abandon()

    os.register_at_fork(after_in_child=abandon)


def keep_for_ever(thing: object) -> None:
    """Never free this object, also not when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
