"""Plain pymongo doing the claims of the Disbatch protocol: one conditional write takes a task, another one ends it.

Each write is in the journal before it counts, as the store's own are. Threads stand for the slots of a node.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pymongo import MongoClient, WriteConcern

from bench.peers.settings import RawMongoSettings
from bench.producers import Gate, Producers

_LOT = 1_000
_QUEUE = "bench"


def drain(_folder: Path, *, server: str, tasks: int, settings: RawMongoSettings) -> float:
    """Tasks a second from the first claim of a full queue to the acknowledgement of the last end."""
    url = f"{server}/raw"
    fill(url, tasks)
    began = time.perf_counter()
    done = work(url, "worker", settings.threads)
    rate = tasks / (time.perf_counter() - began)
    _check([done], tasks)
    return rate


def share(folder: Path, *, server: str, nodes: int, tasks: int, settings: RawMongoSettings) -> tuple[float, float]:
    """Tasks a second that so many processes end together, and the least share of one over an even one."""
    url = f"{server}/raw"
    fill(url, tasks)
    crowd = Producers(nodes, _take_part, folder, url, settings.threads)
    crowd.start()
    began = crowd.release()
    rate = tasks / (crowd.finish() - began)
    shares = [int(path.read_text()) for path in folder.glob("share-*")]
    _check(shares, tasks)
    return rate, min(shares) * nodes / tasks


def _take_part(gate: Gate, number: int, folder: Path, url: str, threads: int) -> None:
    gate()
    (folder / f"share-{number}").write_text(str(work(url, f"node-{number}", threads)))


def _check(shares: Sequence[int], tasks: int) -> None:
    if sum(shares) != tasks:
        raise RuntimeError(f"{sum(shares)} of {tasks} tasks were done")


def fill(url: str, tasks: int) -> None:
    """A queue of the protocol's documents, in a database that has nothing else."""
    with MongoClient[dict[str, Any]](url) as client:
        client.drop_database(client.get_default_database())
        base = client.get_default_database()
        base.tasks.create_index([("node", 1), ("status", 1), ("queue", 1), ("_id", 1)])
        for first in range(0, tasks, _LOT):
            base.tasks.insert_many([_describe() for _ in range(min(_LOT, tasks - first))])


def _describe() -> dict[str, Any]:
    made = datetime.now(UTC)
    return {
        "queue": _QUEUE, "ctime": made, "mtime": made, "node": -1, "status": -2, "parameters": {},
        "stdout": None, "stderr": None,
    }  # fmt: skip


def work(url: str, node: str, threads: int) -> int:
    """Until nothing is queued: how many tasks it did."""
    with MongoClient[dict[str, Any]](url) as client, ThreadPoolExecutor(threads) as pool:
        safe = WriteConcern(w="majority", j=True)
        tasks = client.get_default_database().get_collection("tasks", write_concern=safe)
        return sum(pool.map(lambda _: _work_alone(tasks, node), range(threads)))


def _work_alone(tasks: Any, node: str) -> int:
    done = 0
    while (task := _claim(tasks, node)) is not None:
        ended = {"status": 1, "stdout": "", "stderr": "", "mtime": datetime.now(UTC)}
        tasks.update_one({"_id": task["_id"], "node": node, "status": -1}, {"$set": ended})
        done += 1
    return done


def _claim(tasks: Any, node: str) -> Any:
    return tasks.find_one_and_update(
        {"node": -1, "status": -2, "queue": _QUEUE},
        {"$set": {"node": node, "status": -1, "mtime": datetime.now(UTC)}},
        sort=[("_id", 1)],
    )
