"""Faults strike the calls they name, surface as SQLite's own errors, and end when healed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ganger.testing.power import PowerLog
from ganger.testing.vfs import CALLS, Call, Fault, FaultVfs, PowerVfs, fail_each_call


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    vfs = FaultVfs("fault")
    yield vfs
    vfs.unregister()


def open_store(path: Path, vfs: FaultVfs) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=vfs.name)
    try:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.wal_autocheckpoint(0)
        connection.execute("create table if not exists row(id integer primary key, filler blob)")
    except apsw.Error:
        connection.close(True)
        raise
    return connection


def insert(connection: apsw.Connection, number: int) -> None:
    connection.execute("insert into row values(?, zeroblob(9000))", (number,))


def rows(path: Path) -> set[object]:
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("integrity_check") == "ok"
        if not connection.table_exists(None, "row"):
            return set()
        return {number for (number,) in connection.execute("select id from row")}


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        (Fault("xWrite"), apsw.IOError, apsw.SQLITE_IOERR_WRITE),
        (Fault("xSync"), apsw.IOError, apsw.SQLITE_IOERR_FSYNC),
        (Fault("xWrite", apsw.SQLITE_FULL), apsw.FullError, apsw.SQLITE_FULL),
        (Fault("xWrite", apsw.SQLITE_FULL, short=True), apsw.FullError, apsw.SQLITE_FULL),
        (Fault("xSync", apsw.SQLITE_IOERR_DIR_FSYNC), apsw.IOError, apsw.SQLITE_IOERR_DIR_FSYNC),
    ],
)
def test_a_failed_commit_carries_the_code_and_leaves_no_row(
    tmp_path: Path, vfs: FaultVfs, fault: Fault, error: type[apsw.Error], code: int
) -> None:
    with closing(open_store(tmp_path / "store.db", vfs)) as connection:
        insert(connection, 1)
        vfs.arm(fault)
        with pytest.raises(error) as caught:
            insert(connection, 2)
        insert(connection, 3)
    # The stubs of apsw do not name the attribute.
    assert vars(caught.value)["extendedresult"] == code
    assert (vfs.fired, rows(tmp_path / "store.db")) == (1, {1, 3})


def test_a_fault_strikes_from_its_number_on_as_often_as_it_says(tmp_path: Path, vfs: FaultVfs) -> None:
    with closing(open_store(tmp_path / "store.db", vfs)) as connection:
        vfs.arm(Fault("xSync", at=3, times=2, suffix="-wal"))
        for number in range(6):
            if number in (2, 3):
                with pytest.raises(apsw.IOError):
                    insert(connection, number)
            else:
                insert(connection, number)
        assert (vfs.calls, vfs.fired) == (6, 2)
    assert rows(tmp_path / "store.db") == {0, 1, 4, 5}


def test_a_disk_stays_full_until_it_is_healed(tmp_path: Path, vfs: FaultVfs) -> None:
    with closing(open_store(tmp_path / "store.db", vfs)) as connection:
        vfs.arm(Fault("xWrite", apsw.SQLITE_FULL, times=None))
        for number in range(5):
            with pytest.raises(apsw.FullError):
                insert(connection, number)
        vfs.heal()
        insert(connection, 9)
    assert rows(tmp_path / "store.db") == {9}


def test_a_fault_of_one_file_spares_the_others(tmp_path: Path, vfs: FaultVfs) -> None:
    with closing(open_store(tmp_path / "store.db", vfs)) as connection:
        vfs.arm(Fault("xWrite", times=None, suffix="store.db"))
        insert(connection, 1)
        with pytest.raises(apsw.IOError):
            connection.wal_checkpoint()
        vfs.heal()
    assert rows(tmp_path / "store.db") == {1}


def test_a_short_write_leaves_half_of_the_bytes(tmp_path: Path) -> None:
    below = PowerVfs("fault-below", PowerLog(tmp_path))
    vfs = FaultVfs("fault-above", base=below.name)
    with closing(open_store(tmp_path / "store.db", vfs)) as connection:
        insert(connection, 1)
        size = (tmp_path / "store.db-wal").stat().st_size
        vfs.arm(Fault("xWrite", apsw.SQLITE_FULL, at=2, short=True))
        with pytest.raises(apsw.FullError):
            insert(connection, 2)
        assert (tmp_path / "store.db-wal").stat().st_size == size + 24 + 2048
    assert rows(tmp_path / "store.db") == {1}
    vfs.unregister()
    below.unregister()


def test_a_file_that_cannot_be_opened_says_so(tmp_path: Path, vfs: FaultVfs) -> None:
    vfs.arm(Fault("xOpen"))
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection(str(tmp_path / "store.db"), vfs=vfs.name)


def acknowledge(path: Path, vfs: FaultVfs) -> set[int]:
    """Write and checkpoint through two openings of the file; the rows whose commit was acknowledged."""
    acknowledged = set()
    for start in (0, 10):
        try:
            with closing(open_store(path, vfs)) as connection:
                for number in range(start, start + 3):
                    insert(connection, number)
                    acknowledged.add(number)
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.IOError, apsw.CantOpenError, apsw.FullError):
            continue
    return acknowledged


@pytest.mark.parametrize("call", CALLS)
def test_the_loop_fails_each_call_of_a_kind_once_and_sqlite_acknowledges_nothing_false(
    tmp_path: Path, vfs: FaultVfs, call: Call
) -> None:
    def run(number: int) -> None:
        path = tmp_path / f"{number}.db"
        acknowledged = acknowledge(path, vfs)
        assert acknowledged <= rows(path)

    struck = fail_each_call(vfs, Fault(call), run)
    assert 0 < struck < 200
    assert rows(tmp_path / f"{struck + 1}.db") == {0, 1, 2, 10, 11, 12}


def test_the_loop_over_all_kinds_counts_every_call_and_stops_at_its_limit(tmp_path: Path, vfs: FaultVfs) -> None:
    def run(number: int) -> None:
        path = tmp_path / f"{number}.db"
        assert acknowledge(path, vfs) <= rows(path)

    assert fail_each_call(vfs, Fault(error=apsw.SQLITE_FULL), run, limit=20) == 20


def test_a_checkpoint_that_fails_inside_a_commit_raises_although_the_commit_stands(
    tmp_path: Path, vfs: FaultVfs
) -> None:
    with closing(open_store(tmp_path / "store.db", vfs)) as connection:
        connection.wal_autocheckpoint(1)
        vfs.arm(Fault("xWrite", suffix="store.db"))
        with pytest.raises(apsw.IOError):
            insert(connection, 1)
    assert rows(tmp_path / "store.db") == {1}
