"""What decoding raises for bytes from outside that are not the JSON they should be.

Text that is not UTF-8 and objects in objects without end have errors that are not the decoder's own.
"""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
