"""Named points on every write path, where a test may stop or kill the process."""

from collections.abc import Callable
from typing import Final

Probe = Callable[[str], None]

PROBES: Final = (
    "owner.locked",
    "owner.listening",
    "owner.migrated",
    "owner.prepared",
    "owner.serving",
    "scribe.begun",
    "scribe.unit_run",
    "scribe.before_commit",
    "scribe.committed_before_reply",
    "scribe.replied",
    "scribe.woken",
    "checkpoint.before",
    "checkpoint.after",
    "reserve.released",
    "reserve.held",
    "file.reopened",
    "handover.finished",
    "handover.released",
    "handover.received",
    "bag.put",
    "link.sent",
    "link.resent",
)


def no_probe(name: str) -> None:
    """The default: nothing happens at any point."""
