"""The planted bugs: each was somebody's real one, each is a patch of one place, and each has tests that notice it."""

from typing import Final

from tests.chaos.planted_units import DISK, UNITS
from tests.chaos.planted_work import LEASES, TASKS

BUGS: Final = (*DISK, *UNITS, *LEASES, *TASKS)
