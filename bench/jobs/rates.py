"""What the suite measures: jobs a second, the same frames without jobs, and what an idle worker costs."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.contender import python
from bench.http.load import connect
from bench.http.servers import run_ganger
from bench.jobs.crew import work
from bench.jobs.echo import PAYLOAD
from bench.place import ROOT

_STOP = 15.0
_SUBMITTERS = 16
_SETTLE_SECONDS = 1.0
_IDLE_SECONDS = 5.0


def solve(folder: Path, *, workers: int, jobs: int) -> float:
    """Jobs a second, each durable: payload in the store before, result in the store after."""
    with run_ganger(folder) as running:
        request = running.target.write("POST", "/api/jobs/submit?priority=batch", PAYLOAD)
        with connect(running.target, request, _SUBMITTERS) as load:
            load.send(jobs)
        return asyncio.run(work(running.target.port, running.target.token, workers, jobs, PAYLOAD))


def echo(folder: Path, *, workers: int, jobs: int) -> float:
    """The same frames from the same websockets, without a job behind them."""
    with _run_echo() as port:
        return asyncio.run(work(port, "", workers, jobs, PAYLOAD))


@contextmanager
def _run_echo() -> Iterator[int]:
    process = subprocess.Popen(python("bench.jobs.echo"), stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=_STOP)


def keep_idle(folder: Path, *, workers: int) -> tuple[float, float]:
    """Kilobytes of memory that each idle worker costs, and the share of a core that all of them take."""
    with run_ganger(folder) as running:
        server = psutil.Process(running.pid)
        return asyncio.run(_keep_idle(server, running.target.port, running.target.token, workers))


async def _keep_idle(server: psutil.Process, port: int, token: str, workers: int) -> tuple[float, float]:
    before = server.memory_info().rss
    # One job more than there is: they wait for it until they are let go.
    waiting = asyncio.ensure_future(work(port, token, workers, 1, PAYLOAD))
    await asyncio.sleep(_SETTLE_SECONDS + workers / 200)
    grown = server.memory_info().rss - before
    began, spent = time.perf_counter(), sum(server.cpu_times()[:2])
    await asyncio.sleep(_IDLE_SECONDS)
    share = 100 * (sum(server.cpu_times()[:2]) - spent) / (time.perf_counter() - began)
    waiting.cancel()
    await asyncio.wait([waiting])
    return grown / workers / 1e3, share
