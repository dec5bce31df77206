"""The SQLite store in the hands of its owner, without threads: each call is one transaction, as a group of one is."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import apsw

from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.state import Move, move
from ganger.core.task import Claimed, NewTask
from ganger.databases.sqlite import Session, load_migrations, load_queries
from ganger.engine.store import Claim, Configure, Exchange, Exchanged, NodeChange, QueueChange, Submission, Tend, Tended
from ganger.engine.stores.sqlite.exchanging import exchange
from ganger.engine.stores.sqlite.joining import configure
from ganger.engine.stores.sqlite.shelf import Shelf
from ganger.engine.stores.sqlite.store import prepare
from ganger.engine.stores.sqlite.submitting import submit
from ganger.engine.stores.sqlite.tending import tend
from ganger.testing.clock import FakeClock, SeededEntropy

T = TypeVar("T")
R = TypeVar("R")
STORE = "ganger.engine.stores.sqlite"


def connect(path: str = ":memory:") -> apsw.Connection:
    """A connection to a file with the store's tables, as fast as SQLite goes."""
    connection = apsw.Connection(path, statementcachesize=500)
    connection.pragma("journal_mode", "memory")
    connection.pragma("synchronous", "off")
    connection.pragma("temp_store", 2)
    connection.execute(load_queries("ganger.databases.sqlite", "queries")["create_unit"])
    for migration in load_migrations(STORE, "migrations"):
        connection.execute(migration.sql)
    return connection


class Owner:
    """One connection, one shelf, and time that moves when told."""

    def __init__(self, connection: apsw.Connection | None = None, clock: FakeClock | None = None) -> None:
        self.connection = connect() if connection is None else connection
        self.clock = FakeClock() if clock is None else clock
        self.shelf: Shelf = self.run(lambda session, _: prepare(session, self.clock, SeededEntropy(7)), None)

    def run(self, operation: Callable[[Session, T], R], request: T) -> R:
        """One operation in a transaction of its own; what fails is taken back, on the shelf too."""
        session = Session(self.connection, self.clock.now(), self.clock.wall(), getattr(self, "shelf", None))
        start = session.mark()
        self.connection.execute("SAVEPOINT unit")
        try:
            value = operation(session, request)
            session.flush()
        except BaseException:
            self.connection.execute("ROLLBACK TO unit")
            session.rewind(start)
            raise
        finally:
            self.connection.execute("RELEASE unit")
        return value

    def read(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[Any]:
        return list(self.connection.execute(sql, bindings))

    def queue(self, name: str = "q", **policy: Any) -> QueueId:
        made = self.run(configure, Configure(queue=QueueChange(name=name, policy=Policy(**policy))))
        assert made.queue is not None
        return made.queue.id

    def node(self, name: str = "n", **said: Any) -> NodeId:
        made = self.run(configure, Configure(node=NodeChange(register=Registration(name, token=name, **said))))
        assert made.node is not None
        return made.node.id

    def submit(self, *tasks: NewTask) -> list[TaskId]:
        return self.run(submit, Submission(tasks)).ids

    def exchange(self, *moves: Move, claim: Claim | None = None) -> Exchanged:
        return self.run(exchange, Exchange(moves, claim))

    def claim(self, holder: NodeId, *queues: QueueId, most: int = 1) -> list[Claimed]:
        return self.exchange(claim=Claim(holder, queues, most)).claimed

    def settle(self, rule: str, *claimed: Claimed) -> Exchanged:
        return self.exchange(*(move(one.id, rule, one.fence) for one in claimed))

    def move(self, rule: str, task: int, fence: int = 0) -> Exchanged:
        return self.exchange(move(TaskId(task), rule, Fence(fence)))

    def tend(self, **step: Any) -> Tended:
        return self.run(tend, Tend(**step))


def payload(queue: QueueId, spec: bytes = b"", **more: Any) -> NewTask:
    return NewTask(queue, "payload", spec, **more)


def numbers(claimed: Iterable[Claimed]) -> list[int]:
    return [one.id for one in claimed]
