"""What tests of several folders share: servers, and patience with a busy machine."""

import itertools
import os
import signal
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import mongo as mongod
from tests.servers import opensearch as opensearch_server
from tests.servers.mongo import MongoServer, RunningMongo
from tests.servers.moto import MotoMissing, MotoServer
from tests.servers.opensearch import OpenSearchServer, RunningElastic
from tests.servers.postgres import RUNNING, Missing, PostgresServer, RunningServer

# Properties are checked without a stopwatch, a busy machine is no reason to fail; and each time with the same examples,
# so that what passed passes again. Those who look for bugs take others: HYPOTHESIS_PROFILE=seeking.
settings.register_profile("seeking", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unhurried", settings.get_profile("seeking"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "unhurried"))

# Where it is set nobody notices that something printed is kept in a buffer.
os.environ.pop("PYTHONUNBUFFERED", None)

SERVERS: Final = frozenset({"postgres", "moto", "mongo", "mongo_replica", "opensearch"})


class OutOfTime(BaseException):
    """A test took too long.

    Hypothesis takes pytest's own failure for a finding: it tries the example again, which is then quick, and says
    `Flaky`. What it does not know it lets through.
    """


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    armed = yield
    strike = signal.getsignal(signal.SIGALRM)
    if callable(strike):
        signal.signal(signal.SIGALRM, lambda number, frame: _end_test(strike, number, frame))
    return armed


def _end_test(strike: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None) -> None:
    try:
        strike(number, frame)
    except pytest.fail.Exception as failed:
        raise OutOfTime(failed.msg) from None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server of somebody else's make: it is not for a quick look."""
    for item in items:
        if SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)


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


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    """An S3 service. Without one a test is skipped at home, in so many words, and fails in CI."""
    try:
        server = MotoServer()
    except MotoMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT TESTED on S3: {missing}")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def opensearch() -> Iterator[OpenSearchServer | RunningElastic]:
    """An OpenSearch server. Without one a test is skipped at home, in so many words, and fails in CI."""
    if url := os.environ.get(opensearch_server.RUNNING):
        yield RunningElastic(url)
        return
    try:
        server = OpenSearchServer(os.environ)
    except opensearch_server.Missing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT TESTED on OpenSearch: {missing}")
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


def _serve_mongo(*, replica: bool) -> Iterator[MongoServer | RunningMongo]:
    """A MongoDB server. Without one a test is skipped at home, in so many words, and fails in CI."""
    if url := os.environ.get(mongod.RUNNING):
        yield RunningMongo(url)
        return
    try:
        server = MongoServer(replica=replica)
    except mongod.Missing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT TESTED on MongoDB: {missing}")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def mongo() -> Iterator[MongoServer | RunningMongo]:
    """A MongoDB server that is no replica set."""
    yield from _serve_mongo(replica=False)


@pytest.fixture(scope="session")
def mongo_replica() -> Iterator[MongoServer | RunningMongo]:
    """A MongoDB server that is a replica set of one."""
    yield from _serve_mongo(replica=True)


def _give_databases(server: MongoServer | RunningMongo) -> Iterator[Callable[[], str]]:
    """URLs of databases that no other test has at that time, emptied at the end for the next."""
    given: list[str] = []

    def give() -> str:
        name = f"t{os.getpid()}_{next(_schemas)}"
        given.append(server.free.pop() if server.free else server.url(name))
        return given[-1]

    yield give
    for url in given:
        mongod.wipe_database(url)
    server.free += given


@pytest.fixture
def mongo_url(mongo: MongoServer | RunningMongo) -> Iterator[Callable[[], str]]:
    """The URL of a database that no other test has, at each call another."""
    yield from _give_databases(mongo)


@pytest.fixture
def mongo_replica_url(mongo_replica: MongoServer | RunningMongo) -> Iterator[Callable[[], str]]:
    """The same on a replica set."""
    yield from _give_databases(mongo_replica)
