"""An execution node written from the text of the protocol, with pymongo and nothing of Ganger.

python den.py URL NODE LOG: claims tasks of queues whose plugin it has, runs each in a thread, and settles it.
It writes a line to LOG for each task that it runs. TERM lets what runs end, and takes nothing more.
"""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING, DESCENDING, MongoClient

PLUGINS = ("Disbatch::Plugin::Demo",)
INTERVAL = 0.02
BEAT = 1.0
MOST = 16


def now() -> datetime:
    return datetime.now(UTC)


class Den:
    """One node of the protocol."""

    def __init__(self, url: str, node: str, log: str) -> None:
        self.base: Any = MongoClient(url).get_default_database()
        self.node = node
        self.stopping = threading.Event()
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pool = ThreadPoolExecutor(MOST)
        self._running: dict[Any, int] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Indexes, then orphans, then the registration: all before any task is processed."""
        self.base.tasks.create_index([("node", ASCENDING), ("status", ASCENDING), ("queue", ASCENDING)])
        mine = {"node": self.node, "status": {"$in": [-1, 0]}}
        self.base.tasks.update_many(mine, {"$set": {"status": -6, "mtime": now()}})
        self.register()

    def register(self) -> None:
        told = {"node": self.node, "timestamp": now(), "queues": [self.report(q) for q in self.base.queues.find()]}
        self.base.nodes.update_one({"node": self.node}, {"$set": told}, upsert=True)

    def report(self, queue: Any) -> dict[str, Any]:
        doing = self.base.tasks.count_documents({"queue": queue["_id"], "status": {"$in": [-1, 0]}})
        todo, total = queue.get("count_todo") or 0, queue.get("count_total") or 0
        return {
            "name": queue["name"], "id": str(queue["_id"]), "constructor": queue["constructor"],
            "maxthreads": queue.get("maxthreads"), "tasks_todo": max(0, todo - doing), "tasks_doing": doing,
            "tasks_done": total - todo, "preemptive": 1, "tasks_backfill": 0,
        }  # fmt: skip

    def run(self) -> None:
        """Look for queued and unclaimed tasks upon each interval."""
        self.start()
        heard = time.monotonic()
        while not self.stopping.wait(INTERVAL):
            if time.monotonic() - heard > BEAT:
                heard = time.monotonic()
                self.register()
            for queue in self.base.queues.find({"constructor": {"$in": list(PLUGINS)}}):
                if self.is_mine(queue):
                    self.keep_counts(queue)
                    self.fill(queue)
        self._pool.shutdown()

    def is_mine(self, queue: Any) -> bool:
        """Pinned nodes are the only ones; else all but those that are ignored."""
        if queue.get("nodes_pin"):
            return self.node in queue["nodes_pin"]
        return self.node not in (queue.get("nodes_ignore") or [])

    def keep_counts(self, queue: Any) -> None:
        for name, filter_ in (("count_todo", {"status": {"$lte": 0}}), ("count_total", {})):
            if queue.get(name) is None:
                number = self.base.tasks.count_documents({"queue": queue["_id"], **filter_})
                self.base.queues.update_one({"_id": queue["_id"], name: None}, {"$set": {name: number}})

    def fill(self, queue: Any) -> None:
        while not self.stopping.is_set() and self.has_room(queue):
            task = self.claim(queue)
            if task is None:
                return
            with self._lock:
                self._running[queue["_id"]] = self._running.get(queue["_id"], 0) + 1
            self._pool.submit(self.work, task)

    def has_room(self, queue: Any) -> bool:
        own = self.base.nodes.find_one({"node": self.node}) or {}
        with self._lock:
            here, all_ = self._running.get(queue["_id"], 0), sum(self._running.values())
        limits = ((queue.get("maxthreads"), here), (own.get("maxthreads"), all_), (MOST, all_))
        return all(limit is None or used < limit for limit, used in limits)

    def claim(self, queue: Any) -> Any:
        order = {"fifo": ASCENDING, "lifo": DESCENDING}.get(queue.get("sort") or "default")
        return self.base.tasks.find_one_and_update(
            {"node": -1, "status": -2, "queue": queue["_id"]},
            {"$set": {"node": self.node, "status": -1, "mtime": now()}},
            sort=None if order is None else [("_id", order)],
        )

    def work(self, task: Any) -> None:
        try:
            mine = {"_id": task["_id"], "node": self.node}
            started = {"$set": {"status": 0, "mtime": now()}}
            if self.base.tasks.update_one({**mine, "status": -1}, started).modified_count:
                self.settle(task, mine)
        finally:
            with self._lock:
                self._running[task["queue"]] -= 1

    def settle(self, task: Any, mine: dict[str, Any]) -> None:
        """Run the plugin, and set status, stdout and stderr."""
        os.write(self._log, f"{task['parameters']['n']} {self.node}\n".encode())
        threading.Event().wait(task["parameters"].get("sleep", 0))
        done = {"status": task["parameters"].get("code", 1), "stdout": f"{task['parameters']['n']}\n", "stderr": ""}
        ended = {"$set": {**done, "mtime": now()}}
        if self.base.tasks.update_one({**mine, "status": 0}, ended).modified_count:
            self.base.queues.update_one({"_id": task["queue"]}, {"$inc": {"count_todo": -1}})


def main(url: str, node: str, log: str) -> None:
    den = Den(url, node, log)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: den.stopping.set())
    den.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
