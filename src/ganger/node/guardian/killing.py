"""How an attempt is ended: asked first, then forced, and over only when nothing of it is left."""

import os
import signal

from ganger.node.guardian.attempt import Attempt
from ganger.node.guardian.floor import Orphans
from ganger.node.guardian.tree import Tree, kill_tree, read_parent, send, walk


def ask(attempt: Attempt, orphans: Orphans, now: int) -> None:
    """TERM to all of it, and a time by which it is forced. The stopped ones are woken, or they could not hear it."""
    attempt.asked = True
    attempt.kill_at = min(now + attempt.order.grace, attempt.trusted)
    tree = _find(attempt, orphans)
    send(tree, signal.SIGTERM)
    send(tree, signal.SIGCONT)


def force(attempt: Attempt, orphans: Orphans, now: int) -> list[int]:
    """KILL to all of it, as often as it takes; those that we may not kill are told."""
    attempt.forced_at = min(attempt.forced_at, now)
    attempt.look_later(now)
    if attempt.cell is not None:
        attempt.cell.kill()
    return kill_tree(_roots(attempt, orphans), os.getpid())


def is_over(attempt: Attempt, orphans: Orphans) -> bool:
    """Its own process is reaped, no orphan bears its mark, and its cell is empty."""
    if not attempt.ended or orphans.get(attempt.serial):
        return False
    return attempt.cell is None or attempt.cell.is_empty()


def _roots(attempt: Attempt, orphans: Orphans) -> list[int]:
    own = [] if attempt.ended else [attempt.pid]
    return [*own, *orphans.get(attempt.serial, ())]


def _find(attempt: Attempt, orphans: Orphans) -> Tree:
    tree = walk(_roots(attempt, orphans), os.getpid())
    if attempt.cell is not None:
        tree |= {pid: parent for pid in attempt.cell.members() if (parent := read_parent(pid)) is not None}
    return tree
