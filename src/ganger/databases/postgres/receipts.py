"""How it is found out whether a commit was stored whose reply was lost.

The number of a transaction does not tell: a server that crashes gives numbers out again. So every transaction that must
not be stored twice writes a number of its own into a row of its own, its writer's. Whoever waits for the reply and does
not get it reads that row. If the transaction is still under way somewhere, it is waited for. If it has not come so far,
the row is taken away: it can never be stored then, however late its last message arrives.

A process has as many writers as transactions at one moment; each has its row before it is first used.
"""

from dataclasses import dataclass
from typing import Any

from ganger.core.clock import Entropy
from ganger.databases.postgres.statements import Q


@dataclass(slots=True)
class Writer:
    """Who writes, and the number of what it writes now. `gone`: its row was taken away, so it leaves no receipts."""

    name: str
    n: int = 0
    gone: bool = False


class Writers:
    """The writers of one process; each is lent to one transaction at a time."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._free: list[Writer] = []
        self._all: list[str] = []

    async def lend(self, connection: Any) -> Writer:
        if self._free:
            writer = self._free.pop()
        else:
            writer = Writer(self._entropy.token(12).hex())
            await connection.execute(Q.receipt_add, writer.name)
            self._all.append(writer.name)
        writer.n += 1
        return writer

    def give_back(self, writer: Writer) -> None:
        if not writer.gone:
            self._free.append(writer)

    async def forget(self, connection: Any) -> None:
        """Take away the rows of this process, and those of processes that ended long ago without doing so."""
        await connection.execute(Q.receipt_forget, self._all)


async def is_stored(connection: Any, writer: Writer) -> bool:
    """Was the writer's last transaction committed? If it was not it never will be, and neither will another of his."""
    await connection.execute(Q.receipt_revoke, writer.name, writer.n)
    stored = bool(await connection.fetchval(Q.receipt_read, writer.name) == writer.n)
    writer.gone = not stored
    return stored
