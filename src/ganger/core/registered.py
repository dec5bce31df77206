"""The mark of what somebody meant to be called by nodes.

A task names its function by an import path, and nearly everything in a Python installation has one. So a node calls
what an app has declared, which bears this mark, and what its operator allows by name.
"""


class Registered:
    """A function that an app has declared as a task."""

    __slots__ = ()
