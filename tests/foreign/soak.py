"""A trickle of tasks into queues with limits, and what is wrong in the documents while nodes of two makes run them.

The documents are looked at all the time, as any program of Disbatch may: how long a task stays claimed and not begun,
how many a node and a queue have in hand, and at the end who ran how many.
"""

import random
import time
from collections import Counter
from typing import Any, Final, NamedTuple

from tests.foreign.shared import Shared

QUEUES: Final = 10
LIMITS: Final = (1, 2, 3, 4)
LONGEST_CLAIMED: Final = 5.0
"""Seconds for which a task may be claimed and not begun."""
FAIR: Final = 0.2
"""How much one of two equal nodes may run more or less than their mean."""
_ACTIVE: Final = {"$in": [-1, 0]}


class Soaked(NamedTuple):
    """What was seen: seconds that the longest claim took, limits that were passed, and tasks by node."""

    claimed: float
    passed: dict[str, int]
    by_node: Counter[str]
    looks: int
    tasks: int


class Soak:
    """Limits are those of each node, or in the later dialect those over all nodes."""

    def __init__(self, yard: Shared, *, later: bool, seed: int = 0) -> None:
        self._yard = yard
        self._later = later
        self._chance = random.Random(seed)
        self._limits = {f"q{n}": LIMITS[n % len(LIMITS)] for n in range(QUEUES)}
        self._names: dict[Any, str] = {}
        self._claims: dict[Any, float] = {}
        self._longest = 0.0
        self._passed: dict[str, int] = {}
        self._made = self._looks = 0

    def prepare(self) -> None:
        for name, limit in self._limits.items():
            self._yard.command("queue", name, limit)
        self._names = {queue["_id"]: queue["name"] for queue in self._yard.base.queues.find()}

    def run(self, seconds: float, rate: float, patience: float) -> Soaked:
        """So many tasks a second for so long, and then until all have ended, which must come within the patience."""
        began = time.monotonic()

        def feed() -> bool:
            passed = time.monotonic() - began
            while self._made < rate * min(passed, seconds):
                self._add()
            self._look()
            return passed > seconds

        def is_drained() -> bool:
            self._look()
            return self._count_left() == 0

        self._yard.until(feed, seconds + patience)
        self._yard.until(is_drained, patience)
        ran = Counter(line.split()[1] for line in self._yard.log.read_text().splitlines())
        return Soaked(self._longest, self._passed, ran, self._looks, self._made)

    def _add(self) -> None:
        queue = self._chance.choice(list(self._names))
        node, word = (None, "params") if self._later else (-1, "parameters")
        said = {"n": self._made, "sleep": 0.05}
        printed = {"stdout": None, "stderr": None}
        self._yard.base.tasks.insert_one({"queue": queue, "node": node, "status": -2, word: said, **printed})
        self._made += 1

    def _look(self) -> None:
        """One question, so that all of the answer is of one moment."""
        now = time.monotonic()
        active = list(self._yard.base.tasks.find({"status": _ACTIVE}, {"queue": 1, "node": 1, "status": 1}))
        self._looks += 1
        self._claims = {task["_id"]: self._claims.get(task["_id"], now) for task in active if task["status"] == -1}
        self._longest = max([self._longest, *(now - since for since in self._claims.values())])
        places = Counter((self._names.get(task["queue"]), None if self._later else task["node"]) for task in active)
        for (queue, node), count in places.items():
            if queue is not None and count > self._limits[queue]:
                self._passed[f"{queue} on {node}"] = count

    def _count_left(self) -> int:
        left: int = self._yard.base.tasks.count_documents({"status": {"$lte": 0}})
        return left
