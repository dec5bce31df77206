"""Run times as they are found in practice, and how soon they could all be over."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import exp
from random import Random
from statistics import NormalDist

MEDIAN = 0.05
SPREAD = 1.9
"""The deviation of the logarithm: of 200 tasks two take 5 s or more, and half of all the time goes to ten of them."""

_SEED = 14


def draw_times(tasks: int, longest: float) -> list[float]:
    """Seconds of each: the quantiles of a log-normal distribution, cut at the longest, in the same order every time."""
    normal = NormalDist()
    places = ((number + 0.5) / tasks for number in range(tasks))
    times = [round(min(longest, MEDIAN * exp(SPREAD * normal.inv_cdf(place))), 4) for place in places]
    Random(_SEED).shuffle(times)
    return times


def schedule(times: Sequence[float], machines: int) -> float:
    """When all are over if each in its turn goes to the machine that is free first."""
    free = [0.0] * machines
    for seconds in times:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)
