"""What a shared file allows itself: sizes, counts and times."""

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one handle. Times are milliseconds of the boot clock."""

    local_units: int = 250
    """Units of the owner's own process in one group; the units of a peer are bounded by its slots."""
    group_ms: int = 50
    """A group that has run this long is committed; what is left waits for the next one."""
    slots: int = 64
    """Units of one process that may be on their way to the owner at once; more wait at home."""
    letters_after: int = 8
    """So many units a process calls for before it makes a bag, which costs more than a few answers."""
    letters: int = 256
    """Letters of one process that may be on their way at once; beyond them a caller waits for its answer."""
    letter_bytes: int = 16 * 1024
    letter_patience_ms: int = 3
    """For so long the answer to a letter is waited for that comes so long after the last, before its bag is written."""
    frame_bytes: int = 64 * MEBIBYTE
    unsent_bytes: int = 64 * MEBIBYTE
    """Answers kept for a peer that does not read; beyond it the peer is cut, connects again and asks again."""
    stalled_ms: int = 30_000
    """A peer that reads nothing, or says no hello, for this long is cut."""
    connect_ms: int = 10_000
    answer_ms: int = 30_000
    """A unit without an answer for this long fails as unavailable: its outcome is unknown."""
    resend_ms: int = 30 * 60_000
    """A unit older than this is not sent again, because its receipt may have been pruned."""
    flush_ms: int = 1_000
    """How long an owner that leaves waits for peers to read their last answers."""
    retry_ms: int = 1_000
    """How soon a process without an owner to talk to tries again when nobody asks it for anything."""
    checkpoint_pages: int = 4_000
    reserve_bytes: int = 8 * MEBIBYTE
    space_check_ms: int = 10
    readers: int = 4


DEFAULT_LIMITS: Final = Limits()
