"""THE CONTRACT of `bench.ganger_engine`: what the engine suite asks of Ganger.

Each function runs in a fresh process with a folder of its own and returns a rate or a time that it took itself, by
`time.perf_counter`, around the measured part alone; what prepares the measured part is not counted. Everything is
durable when it counts: a submit when it was acknowledged, a task when its settle was. Each checks at its end that all
tasks are settled (or submitted), and raises if not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

Backlog = Literal["fifo", "lifo", "full_key", "avoided"]
GraphShape = Literal["wide", "deep", "diamond", "join"]


class Subject(Protocol):
    def submit_in_bulk(self, folder: Path, *, tasks: int, chunk: int) -> float:
        """Tasks submitted a second, `chunk` at a time, by one caller."""

    def submit_one_by_one(self, folder: Path, *, tasks: int, producers: int) -> float:
        """Tasks submitted a second by that many processes in all, each waiting for every acknowledgement."""

    def drain(self, folder: Path, *, tasks: int, batch: int) -> float:
        """No-op tasks a second, from the first claim of a full queue to the acknowledgement of the last settle."""

    def run_in_bulk(self, folder: Path, *, tasks: int, chunk: int, batch: int) -> float:
        """Tasks a second from the first submit of a chunk to the last settle, worker and producer at work together."""

    def run_one_by_one(self, folder: Path, *, tasks: int, producers: int, batch: int) -> float:
        """Tasks a second from the first submit to the last body that ran, submitted singly by other processes."""

    def turn_over(self, folder: Path, *, tasks: int, batch: int) -> float:
        """Tasks a second through submit, claim and settle by the engine alone, as the raw SQLite peer does them."""

    def prepare_backlog(self, folder: Path, *, backlog: Backlog, depth: int) -> None:
        """Leave in the folder a store with `depth` queued tasks.

        `fifo` and `lifo` are plain tasks in a queue of that sort; `full_key` is `depth` tasks of a concurrency key that
        is full, and `avoided` `depth` tasks that avoid the holder that claims, each ahead of 10,000 plain tasks.
        """

    def time_claims(self, folder: Path, *, backlog: Backlog, batch: int) -> float:
        """The median seconds of a claim of a batch from a prepared backlog, of at least 20; the tasks stay claimed."""

    def time_submits(self, folder: Path, *, batch: int) -> float:
        """The median seconds of a submit of a batch to a prepared backlog, of at least 20."""

    def weigh(self, folder: Path) -> float:
        """Resident megabytes of a process that has claimed, settled and submitted on a prepared backlog."""

    def grow_graph(self, folder: Path, *, shape: GraphShape, tasks: int) -> tuple[float, float]:
        """Tasks of a graph submitted a second, and the seconds of release work for each edge as its parents settle."""
