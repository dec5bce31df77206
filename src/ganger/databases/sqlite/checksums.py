"""Checksums of pages: a page that is not what was written is never served.

SQLite itself has none outside of its log: a bit that flips inside of a value is read like any other. So a new file is
made with eight bytes kept free in each page, and is opened through SQLite's own checksum layer (cksumvfs, which comes
with apsw). It writes a checksum with each page that goes into the database, and a page that does not fit its checksum
is an error of the disk. What is in the log, and not yet in the database, has the checksums of the log (`logfile`).

A file that was made without them goes on without them. One that has them must not be written without the layer, or its
checksums would no longer fit: where the layer is missing such a file is refused.
"""

import threading
from array import array
from pathlib import Path
from typing import Final

import apsw

from ganger.core.errors import StoreBroken

_LAYER: Final = "cksmvfs"
_PLAIN: Final = "unix"
_KEPT_FREE: Final = 8
_PLACE_OF_FREE: Final = 20
"""The byte in the head of a database that says how many bytes of each page are kept free."""
_PAGE: Final = 4096
_loading: Final = threading.Lock()


def find_layer() -> str | None:
    """The name of the layer that checks pages, loaded if it was not; None if apsw came without it."""
    with _loading:
        if _LAYER in apsw.vfs_names():
            return _LAYER
        # Not by apsw.sqlite_extra, which takes thirty milliseconds to say the same.
        folder = Path(apsw.__file__).with_name("sqlite_extra_binaries")
        if not any(folder.glob("cksumvfs.*")):
            return None
        default = apsw.vfs_names()[0]
        connection = apsw.Connection(":memory:")
        try:
            connection.enable_load_extension(True)
            connection.load_extension(str(folder / "cksumvfs"))
        finally:
            connection.close()
        # It makes itself the layer of every database that anybody in this process opens: only ours are meant.
        apsw.set_default_vfs(default)
        return _LAYER


def keep_room(connection: apsw.Connection) -> None:
    """In a database without a page yet: keep the bytes of the checksums free."""
    wanted = array("i", [_KEPT_FREE])
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, wanted.buffer_info()[0])


def has_checksums(connection: apsw.Connection) -> bool:
    """Are the pages of this database checked when they are read?"""
    return str(connection.pragma("checksum_verification")) == "1"


def check_head(database: Path) -> None:
    """StoreBroken if the first page says that there are no checksums, and has one; or if nobody here can check them."""
    page = read_first_page(database)
    if len(page) < _PAGE:
        return
    layer = find_layer()
    if page[_PLACE_OF_FREE] == _KEPT_FREE:
        if layer is None:
            raise StoreBroken(
                f"the pages of {database} have checksums, and this apsw has no cksumvfs: install apsw from its wheel",
                path=str(database),
            )
        return
    if layer is not None and _fits(page[:_PLACE_OF_FREE] + bytes([_KEPT_FREE]) + page[_PLACE_OF_FREE + 1 :]):
        raise StoreBroken(f"the first page of {database} is damaged: restore it from a copy", path=str(database))


def _fits(page: bytes) -> bool:
    connection = apsw.Connection(":memory:")
    try:
        return bool(connection.execute("SELECT verify_checksum(?)", (page,)).get)
    finally:
        connection.close()


def read_first_page(database: Path) -> bytes:
    """What lies at the beginning of the file; read by SQLite, whose locks a file opened beside it would drop."""
    if not database.exists():
        return b""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile(_PLAIN, str(database), flags)
    try:
        return file.xRead(_PAGE, 0) if file.xFileSize() >= _PAGE else b""
    finally:
        file.xClose()
