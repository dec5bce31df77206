"""Are the tasks of a PostgreSQL store found where they are looked for?"""

from typing import Any, Final

_MISPLACED: Final = """
    (SELECT id, queue, lane, priority, rank, fence FROM task WHERE status = -2 AND NOT parked
     EXCEPT SELECT task, queue, lane, priority, rank, fence FROM ready)
    UNION ALL
    (SELECT task, queue, lane, priority, rank, fence FROM ready
     EXCEPT SELECT id, queue, lane, priority, rank, fence FROM task WHERE status = -2 AND NOT parked)
    UNION ALL
    (SELECT id, queue, holder, 0, 0, 0 FROM task WHERE holder IS NOT NULL
     EXCEPT SELECT task, queue, holder, 0, 0, 0 FROM lease)
    UNION ALL
    (SELECT task, queue, holder, 0, 0, 0 FROM lease EXCEPT SELECT id, queue, holder, 0, 0, 0 FROM task)
"""


async def find_misplaced(connection: Any) -> list[tuple[int, ...]]:
    """Tasks that are ready or leased and are not found as such, or the other way round."""
    return [tuple(row) for row in await connection.fetch(_MISPLACED)]
