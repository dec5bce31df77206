"""How many files this process may have open; connections are such."""

import resource
from contextlib import suppress
from typing import Final

_MOST: Final = 1 << 20


def count_files() -> int:
    """So many may be open at once."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else min(soft, _MOST)


def raise_files() -> int:
    """From now on as many as the machine allows; returns how many it was before, which is for programs started here."""
    before, (_, hard) = count_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    bound_files(_MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST))
    return before


def bound_files(most: int) -> None:
    """From now on so many, if the machine allows that; programs that are started here may raise it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
