"""The end of a warm process that cannot go on: a thread that stops alone would keep its task claimed for ever."""

import os
import traceback
from typing import Final, NoReturn

_STANDARD_ERROR: Final = 2


def die() -> NoReturn:
    """Say why, and end this process at once; its note tells what it executed. For use where an exception is handled."""
    try:
        # Past `sys.stderr`: a function may have closed or replaced that.
        os.write(_STANDARD_ERROR, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(1)
