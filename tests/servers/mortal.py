"""A server of a test's own, which may be killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import pytest

from tests.servers import mongo, postgres


class Startable(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


S = TypeVar("S", bound=Startable)


@contextmanager
def run_mortal(make: Callable[[], S]) -> Iterator[S]:
    """Started, and stopped at the end. (Ask for the shared one too: it says what to do where there is none.)"""
    try:
        server = make()
    except (postgres.Missing, mongo.Missing) as missing:
        pytest.skip(f"NOT TESTED: {missing}; a server that somebody else runs is not killed")
    server.start()
    try:
        yield server
    finally:
        server.stop()
