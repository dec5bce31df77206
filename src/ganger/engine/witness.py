"""Who must have seen a change before it is acknowledged: nobody by default, later so and so many peers.

The witness stands between the commit and the answer. When it raises, the change is stored all the same and the caller
does not know: it asks again by key (submit), or learns that its lease is over (settle).
"""

from typing import NamedTuple, Protocol

from ganger.engine.store import Exchange, Exchanged, Submission, Submitted


class SubmitCommitted(NamedTuple):
    request: Submission
    reply: Submitted


class SettleCommitted(NamedTuple):
    """`reply.refused` are the moves that were not applied; `reply.claimed` is the same step's claim."""

    request: Exchange
    reply: Exchanged


Committed = SubmitCommitted | SettleCommitted


class Witness(Protocol):
    async def witnessed(self, change: Committed) -> None:
        """Return when the change is as safe as was promised. It is durable in the store already."""
        ...
