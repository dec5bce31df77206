"""What Huey's two storages have in common: the tasks, and the consumer's command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench import tally
from bench.contender import Body, python


def make_send(huey: Any) -> Callable[[Iterable[Sequence[float]]], None]:
    """One by one: it has no call for many."""
    work = huey.task(name="work")(tally.work)

    def send(batches: Iterable[Sequence[float]]) -> None:
        for moments in batches:
            for moment in moments:
                work(moment)

    return send


def make_submit(huey: Any) -> Callable[[Body, Iterable[object]], None]:
    tasks = {"note": huey.task(name="note")(tally.note), "stamp": huey.task(name="stamp")(tally.stamp)}

    def submit(body: Body, turns: Iterable[object]) -> None:
        task = tasks[body]
        for _ in turns:
            task()

    return submit


def consume(module: str, workers: int, kind: str, *polling: str) -> Sequence[str]:
    instance = f"bench.contenders.{module}.huey"
    plain = ("-q", "--no-periodic", "--disable-health-check")
    return python("huey.bin.huey_consumer", instance, "-w", str(workers), "-k", kind, *polling, *plain)
