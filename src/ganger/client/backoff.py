"""How long to wait between attempts, in the units of the SDK: each of these makes a value of `core.retry`."""

from collections.abc import Iterable

from ganger.core import retry
from ganger.core.span import Span, to_ms


def Fixed(delay: Span) -> retry.Fixed:
    """The same delay each time."""
    return retry.Fixed(to_ms(delay, "delay"))


def Exponential(first: Span = 1, factor: float = 2.0, most: Span = 600, jitter: float = 0.25) -> retry.Exponential:
    """first, first * factor, first * factor^2 ... up to `most`; `jitter` is the share that luck may take away."""
    return retry.Exponential(to_ms(first, "first"), factor, to_ms(most, "most"), jitter)


def Delays(delays: Iterable[Span]) -> retry.Delays:
    """The delays one after another; the last one repeats."""
    return retry.Delays(tuple(to_ms(delay, "delays") for delay in delays))
