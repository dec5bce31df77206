"""What tells which program wrote a file, and with which version of it: looked at before anything else is."""

import zlib
from typing import Final

FORMAT: Final = 2
"""The version of the tables that a shared file keeps for itself, and of what lies around them: checksums, bags."""

PROTOCOL: Final = 4
"""The version of the language between the owner of a file and the others. Its predecessor may share the file; where
the two do not understand each other the number grows by two.
"""


def mark_of(application: str) -> int:
    """The mark of a program in the header of its files."""
    return zlib.crc32(application.encode()) & 0x7FFFFFFF
