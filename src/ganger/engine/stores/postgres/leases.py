"""The leases that this process gave away and that nobody else has any business with.

A task that is taken here, run here and simply succeeds is settled without being read first: the row as it was left by
the claim is judged as if it had just been read, and written on the condition that it still is that row (its fence, its
status, its edges). If it is not, nothing was written, and the step runs again with a look at the row. So remembering is
never believed; it only saves the look.
"""

from collections.abc import Iterable
from typing import Final

from ganger.core.state import Move
from ganger.engine.store import Exchange
from ganger.engine.stores.postgres.rows import Known, Row
from ganger.engine.stores.postgres.shelf import Shelf

MOST: Final = 100_000


class Leases:
    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}

    def holder(self, request: Exchange) -> int:
        """Whose node acts in it, as far as it is known here; 0 if not."""
        if request.claim is not None:
            return request.claim.holder
        row = self._rows.get(request.moves[0].task) if request.moves else None
        return 0 if row is None else row.holder or 0

    def find(self, known: Known | None, shelf: Shelf, request: Exchange) -> dict[int, Row] | None:
        """The rows of all its moves, if each is a plain success of a lease of the acting node that is known here."""
        if known is None or request.notes or not request.moves:
            return None
        rows = {
            int(move.task): row for move in request.moves if (row := self._rows.get(move.task)) and _fits(move, row)
        }
        own = all(row.holder == known.node.id and row.queue in shelf.queues for row in rows.values())
        return rows if own and len(rows) == len(request.moves) else None

    def remember(self, rows: Iterable[Row]) -> None:
        self._rows.update((row.id, row) for row in rows)
        while len(self._rows) > MOST:
            del self._rows[next(iter(self._rows))]

    def forget(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            self._rows.pop(task, None)


def _fits(move: Move, row: Row) -> bool:
    return move.rule == "succeed" and move.fence == row.fence and move.reason is None and move.branch
