"""The token with which an attempt speaks for its family: its parents, itself and its children.

A token is the task, the fence, by whose token the node works that was given the task (nobody's, if it works on the
store itself), and a signature over all that with a key that only those have who give and check tokens. So nothing is
stored for it, and nothing has to be revoked: it says "I am the attempt with this fence", and whoever checks it acts
under that lease. When the lease is settled or lost the fence is not the newest any more, and the store refuses
what is done under it, in the same transaction; the token is then worth nothing, however well it is signed.

What it does not do: it does not keep an attempt from what its user may do without it. Whoever can read the key, or
write the store's file, needs no token. It is for those who reach the store through a door that asks for one.
"""

import hmac
from typing import Final, NamedTuple

from ganger.core.errors import NotAuthenticated
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.lease import Lease

KEY_BYTES: Final = 32
_PURPOSE: Final = b"ganger family token 1\n"
_LONGEST_NUMBER: Final = 19
_NOBODY: Final = NodeId(0)


class Attempt(NamedTuple):
    """An attempt that speaks for its family. `giver` is the id of the token by which its node works.

    `queues` are the names of those besides its own that it may fill, because its node may; None: every one.
    """

    lease: Lease
    giver: str = ""
    queues: frozenset[str] | None = frozenset()


def make_token(key: bytes, task: TaskId, fence: Fence, giver: str = "") -> str:
    """The token of one attempt."""
    claim = f"{task}.{fence}.{giver}" if giver else f"{task}.{fence}"
    return f"{claim}.{_sign(key, claim)}"


def _sign(key: bytes, claim: str) -> str:
    return hmac.digest(key, _PURPOSE + claim.encode(), "sha256").hex()


def read_token(key: bytes, token: str) -> Attempt:
    """The attempt that the token speaks for. Whether its lease still holds, the store says. NotAuthenticated if forged.

    The comparison takes as long for a signature that is nearly right as for one that is all wrong.
    """
    claim, _, signature = token.rpartition(".")
    if not hmac.compare_digest(_sign(key, claim).encode(), signature.encode("utf-8", "replace")):
        raise NotAuthenticated("the token of this attempt is not one that a node of this store gave")
    task, _, rest = claim.partition(".")
    fence, _, giver = rest.partition(".")
    if not (_is_number(task) and _is_number(fence)):
        raise NotAuthenticated("the token of this attempt names no task")
    return Attempt(Lease(TaskId(int(task)), Fence(int(fence)), _NOBODY), giver)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
