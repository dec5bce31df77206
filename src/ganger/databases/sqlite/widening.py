"""Several rows by one statement.

Whenever a statement goes into the database and comes back, the other threads of the process may take the interpreter,
and keep it for a millisecond. With `executemany` that is after every row; so statements with one row of values are made
wider, and take many rows at once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import apsw

_MOST: Final = 32
_START: Final = "VALUES ("
_END: Final = ")"


def run_wide(connection: apsw.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """As `executemany`, for a statement with a single row of VALUES that holds nothing but parameters."""
    if len(rows) == 1:
        connection.execute(statement, rows[0])
        return
    for start in range(0, len(rows), _MOST):
        some = rows[start : start + _MOST]
        connection.execute(_widen(statement, len(some)), [value for row in some for value in row])


@lru_cache(maxsize=1_024)
def _widen(statement: str, rows: int) -> str:
    before, start, rest = statement.partition(_START)
    values, end, after = rest.partition(_END)
    row = f"({values}{end}"
    return f"{before}{start[:-1]}{', '.join([row] * rows)}{after}"
