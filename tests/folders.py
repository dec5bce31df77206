"""Folders for tests that do not ask whether something is on disk."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_ENOUGH: Final = 48 << 20


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder whose syncs cost nothing, where the machine has one: thousands of them take minutes on a busy disk."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH
    with tempfile.TemporaryDirectory(prefix="ganger-", dir=_MEMORY if roomy else None) as folder:
        yield Path(folder)
