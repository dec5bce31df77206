"""Many tasks of very different lengths, submitted together: how well nodes share them, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.real.site import open_site
from bench.real.tasks import call_nap
from bench.real.times import draw_times, schedule


def share(
    folder: Path, *, kind: str, socket: str, nodes: Sequence[int], tasks: int, longest: float
) -> tuple[float, float, float, float]:
    """Seconds from the submit to the last end; those of a schedule without a loss; claims and KB for each task."""
    times = draw_times(tasks, longest)
    with open_site(folder, socket, nodes) as site:
        calls = [call_nap(kind, seconds) for seconds in times]
        written, began = site.count_written(), time.perf_counter()
        ended = site.await_all(site.send(calls))
        written = site.count_written() - written
        claims = site.count()["facts"]["claimed"]
    if not written:
        raise RuntimeError("no byte was counted as written: the folder is not on a disk")
    return ended - began, schedule(times, sum(nodes)), claims / tasks, written / tasks / 1000
