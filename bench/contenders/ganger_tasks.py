"""What Ganger's two stores have in common: the functions, `delay` and `send`. The store is that of the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from bench import tally
from bench.contender import Body, chunks, script
from bench.peers.settings import GangerSettings
from bench.place import VARIABLE, find_place
from ganger import Ganger

app = Ganger(upkeep=False)


@app.task
def note() -> None:
    tally.note()


@app.task
def stamp() -> None:
    tally.stamp()


@app.task
def work(sent: float) -> None:
    tally.work(sent)


def submit(body: Body, turns: Iterable[object]) -> None:
    with app:
        _connect()
        task = note if body == "note" else stamp
        for _ in turns:
            task.delay()


def submit_in_bulk(tasks: int) -> None:
    with app:
        for size in chunks(tasks):
            app.send([note.bind()] * size)


def send(batches: Iterable[Sequence[float]]) -> None:
    with app:
        _connect()
        for moments in batches:
            app.send([work.bind(moment) for moment in moments])


def _connect() -> None:
    """Open the store before the first task, as an application has that has submitted before."""
    app.wait([], 0)


def use_store(store: str) -> str:
    """Have this process and those that it starts use that store, unless the module is only looked at.

    Processes of functions have a clean environment, but they have to find the place of the load.
    """
    if folder := find_place().folder:
        os.environ |= {"GANGER_STORE": store, "GANGER_HOME": folder, "GANGER_PASS_ENV": VARIABLE}
    return store


def run_node(store: str) -> Sequence[str]:
    """The command line of the worker: as many warm processes for functions as it has slots."""
    slots = find_place().workers or GangerSettings().slots
    return script("ganger"), "up", "--store", store, "--name", "bench", "--slots", str(slots), "--quiet"
