"""How much one client may ask for, and how long it may take: nothing a stranger does can hold the server for ever."""

from typing import NamedTuple


class HttpLimits(NamedTuple):
    """Sizes are bytes, times seconds.

    `write` is how long a client may leave an answer unread before it is cut off. `waiting` requests are answered at
    once with 429 beyond `at_once`; those that wait for something to happen are counted apart, up to `visits`. Of all
    `connections` one address may have `of_address`.
    """

    head: int = 32 << 10
    head_time: float = 10.0
    body: int = 16 << 20
    body_time: float = 30.0
    idle: int = 60
    write: float = 30.0
    beat: float = 15.0
    late: float = 0.01
    """A request that begins so long after it came is refused, while that happens for longer than a moment."""
    slow: float = 0.25
    """While for longer than a moment none was done within so long, others are refused."""
    respite: float = 0.004
    """While others are refused, the loop rests for so long between two looks at its connections."""
    crowd: int = 100
    """With fewer at once nobody is refused for either: those who are there wait for each other."""
    connections: int = 12_288
    of_address: int = 4_096
    at_once: int = 1_000
    visits: int = 3_000
    failures: float = 20.0
    """So many wrong tokens a second are looked at from one address."""
    rate: float = 0.0
    """So many requests a second are taken from one token that has no rate of its own, and as many at once; 0: any."""
    page: int = 1_000
    piece: int = 256 << 10
    value: int = 64 << 20
    """The largest value that is put together slot by slot."""


PLAIN_LIMITS = HttpLimits()
