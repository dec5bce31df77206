"""Where the parts of one load find each other: handed from process to process in the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

VARIABLE = "BENCH_PLACE"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of the load, the socket of Redis, and the folder of PostgreSQL's socket.

    `workers` is how many tasks a worker runs at once; 0 leaves that to the settings of the contender.
    """

    folder: str
    redis: str = ""
    postgres: str = ""
    workers: int = 0


def announce(place: Place) -> None:
    """Tell every process that is started from here on."""
    os.environ[VARIABLE] = json.dumps(asdict(place))


def find_place() -> Place:
    """The place of the load that this process belongs to; a module that is only looked at has an empty one."""
    return Place(**json.loads(os.environ.get(VARIABLE, '{"folder": ""}')))
