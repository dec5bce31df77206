"""A command node written from the text of the protocol, with pymongo and nothing of Ganger.

python dcn.py URL queue NAME [MAXTHREADS]
python dcn.py URL tasks NAME COUNT [SLEEP]: tasks whose parameters have the numbers from 0 on.
"""

import sys
from datetime import UTC, datetime
from typing import Any

from pymongo import MongoClient

PLUGIN = "Disbatch::Plugin::Demo"
LOT = 1_000


def make_queue(base: Any, name: str, maxthreads: str = "null") -> None:
    limit = None if maxthreads == "null" else int(maxthreads)
    base.queues.insert_one({"name": name, "constructor": PLUGIN, "maxthreads": limit, "sort": "fifo"})


def make_tasks(base: Any, name: str, count: str, sleep: str = "0") -> None:
    queue = base.queues.find_one({"name": name})["_id"]
    lot = [describe(queue, {"n": n, "sleep": float(sleep)}) for n in range(int(count))]
    for start in range(0, len(lot), LOT):
        base.tasks.insert_many(lot[start : start + LOT])


def describe(queue: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """A task as it is when it is created."""
    made = datetime.now(UTC)
    return {
        "queue": queue, "ctime": made, "mtime": made, "node": -1, "status": -2, "parameters": parameters,
        "stdout": None, "stderr": None,
    }  # fmt: skip


def main(url: str, verb: str, *words: str) -> None:
    base: Any = MongoClient(url).get_default_database()
    if verb == "queue":
        make_queue(base, *words)
    else:
        make_tasks(base, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
