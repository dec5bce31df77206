"""A short look at a store of this machine: far cheaper than to open it, for whoever reads once and goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from ganger.assembly.location import Location
from ganger.engine.stores.sqlite import glance_at
from ganger.engine.view import View
from ganger.runtime.clock import SystemClock


@contextmanager
def view_store(location: Location) -> Iterator[View | None]:
    """The store as it is now; None if it must be opened to be read."""
    clock = SystemClock()
    with glance_at(location.database, clock) as store:
        yield None if store is None else View(store, clock)
