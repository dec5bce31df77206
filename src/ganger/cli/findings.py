"""What `ganger doctor` has looked at."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that was looked at: well or not, and what was seen."""

    what: str
    well: bool
    seen: str
