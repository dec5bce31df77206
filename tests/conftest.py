"""Servers that tests of several folders share, one for each session."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.servers.postgres import RUNNING, Missing, PostgresServer, RunningServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer | RunningServer]:
    """A PostgreSQL server. Without one a test is skipped at home, in so many words, and fails in CI."""
    if url := os.environ.get(RUNNING):
        yield RunningServer(url)
        return
    try:
        server = PostgresServer()
    except Missing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT TESTED on PostgreSQL: {missing}")
    try:
        server.start()
        yield server
    finally:
        server.stop()


_schemas = itertools.count(1)


@pytest.fixture
def postgres_url(postgres: PostgresServer | RunningServer) -> Callable[[], str]:
    """The URL of a schema that no other test has, at each call another."""
    return lambda: postgres.url(f"t{os.getpid()}_{next(_schemas)}")
