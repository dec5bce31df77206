"""An execution node and a command node of the later releases of Disbatch 4, with pymongo and nothing of Ganger.

python later.py URL queue NAME THREADS: a limit over all nodes.
python later.py URL tasks NAME COUNT [SLEEP]: tasks whose params have the numbers from 0 on.
python later.py URL den NODE LOG: claims tasks of queues whose plugin it has, runs each in a thread, and settles it.
"""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING, MongoClient

PLUGIN = "Disbatch::Plugin::Demo"
INTERVAL = 0.02
BEAT = 1.0
MOST = 16
LOT = 1_000


def now() -> datetime:
    return datetime.now(UTC)


def make_queue(base: Any, name: str, threads: str) -> None:
    limit = None if threads == "null" else int(threads)
    base.queues.insert_one({"name": name, "plugin": PLUGIN, "threads": limit, "sort": "fifo"})


def make_tasks(base: Any, name: str, count: str, sleep: str = "0") -> None:
    queue = base.queues.find_one({"name": name})["_id"]
    lot = [describe(queue, {"n": n, "sleep": float(sleep)}) for n in range(int(count))]
    for start in range(0, len(lot), LOT):
        base.tasks.insert_many(lot[start : start + LOT])


def describe(queue: Any, params: dict[str, Any]) -> dict[str, Any]:
    """A task as it is when it is created."""
    made = now()
    return {
        "queue": queue, "ctime": made, "mtime": made, "node": None, "status": -2, "params": params,
        "stdout": None, "stderr": None,
    }  # fmt: skip


class Den:
    """One node. Of the limit over all nodes each keeps what it sees: two that look at once may pass it by one."""

    def __init__(self, base: Any, node: str, log: str) -> None:
        self.base = base
        self.node = node
        self.stopping = threading.Event()
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pool = ThreadPoolExecutor(MOST)

    def start(self) -> None:
        """Names of queues and nodes are unique, by indexes that a node ensures."""
        self.base.tasks.create_index([("node", ASCENDING), ("status", ASCENDING), ("queue", ASCENDING)])
        self.base.queues.create_index([("name", ASCENDING)], unique=True)
        self.base.nodes.create_index([("node", ASCENDING)], unique=True)
        self.base["tasks.chunks"].create_index([("files_id", ASCENDING), ("n", ASCENDING)], unique=True)
        mine = {"node": self.node, "status": {"$in": [-1, 0]}}
        self.base.tasks.update_many(mine, {"$set": {"status": -6, "mtime": now()}})
        self.register()

    def register(self) -> None:
        self.base.nodes.update_one({"node": self.node}, {"$set": {"timestamp": now()}}, upsert=True)

    def run(self) -> None:
        self.start()
        heard = time.monotonic()
        while not self.stopping.wait(INTERVAL):
            if time.monotonic() - heard > BEAT:
                heard = time.monotonic()
                self.register()
            for queue in self.base.queues.find({"plugin": PLUGIN}):
                self.fill(queue)
        self._pool.shutdown()

    def fill(self, queue: Any) -> None:
        while not self.stopping.is_set() and self.has_room(queue):
            task = self.claim(queue)
            if task is None:
                return
            self._pool.submit(self.work, task)

    def has_room(self, queue: Any) -> bool:
        active = {"status": {"$in": [-1, 0]}}
        own = self.base.nodes.find_one({"node": self.node}) or {}
        here = self.base.tasks.count_documents({**active, "node": self.node})
        all_ = self.base.tasks.count_documents({**active, "queue": queue["_id"]})
        limits = ((queue.get("threads"), all_), (own.get("maxthreads"), here), (MOST, here))
        return all(limit is None or used < limit for limit, used in limits)

    def claim(self, queue: Any) -> Any:
        return self.base.tasks.find_one_and_update(
            {"$or": [{"node": None}, {"node": -1}], "status": -2, "queue": queue["_id"]},
            {"$set": {"node": self.node, "status": -1, "mtime": now()}},
            sort=[("_id", ASCENDING)],
        )

    def work(self, task: Any) -> None:
        mine = {"_id": task["_id"], "node": self.node}
        started = {"$set": {"status": 0, "mtime": now()}}
        if not self.base.tasks.update_one({**mine, "status": -1}, started).modified_count:
            return
        os.write(self._log, f"{task['params']['n']} {self.node}\n".encode())
        threading.Event().wait(task["params"].get("sleep", 0))
        # The status first, what was printed afterwards: for a moment a task has ended and is not complete.
        self.base.tasks.update_one({**mine, "status": 0}, {"$set": {"status": 1, "mtime": now()}})
        printed = {"stdout": f"{task['params']['n']}\n", "stderr": "", "complete": True}
        self.base.tasks.update_one({**mine, "status": 1}, {"$set": printed})


def run_den(base: Any, node: str, log: str) -> None:
    den = Den(base, node, log)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: den.stopping.set())
    den.run()


def main(url: str, verb: str, *words: str) -> None:
    base: Any = MongoClient(url).get_default_database()
    if verb == "queue":
        make_queue(base, *words)
    elif verb == "tasks":
        make_tasks(base, *words)
    else:
        run_den(base, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
