"""The file of the log is longer than the log, and nobody takes what lies ahead for anything that was written."""

from pathlib import Path

import apsw

from ganger.databases.sqlite.place import Place
from ganger.databases.sqlite.runway import Runway

PAGE = 4_096
FRAME = PAGE + 24


def open_log(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("page_size", PAGE)
    connection.pragma("journal_mode", "wal")
    connection.wal_autocheckpoint(0)
    connection.execute("CREATE TABLE fact (n)")
    return connection


def reach(runway: Runway, pages: int) -> None:
    if runway.is_short(pages):
        runway.lay(pages, syncs=pages % 2 == 0)


def count_facts(path: Path) -> int:
    found: int = apsw.Connection(str(path)).execute("SELECT count(*) FROM fact").get
    return found


def test_the_log_is_read_as_far_as_it_was_written(tmp_path: Path) -> None:
    database, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    connection, runway = open_log(database), Runway(Place.of(database), PAGE, 1_000)
    for number in range(100):
        connection.execute("INSERT INTO fact VALUES (?)", (number,))
        reach(runway, 2 + number)
        assert log.stat().st_size >= 32 + (2 + number + 16) * FRAME
    for name in ("a.db", "a.db-wal"):
        (tmp_path / f"copy-{name}").write_bytes((tmp_path / name).read_bytes())
    (tmp_path / "copy-a.db-wal").rename(tmp_path / "copy.db-wal")
    (tmp_path / "copy-a.db").rename(tmp_path / "copy.db")
    assert count_facts(tmp_path / "copy.db") == 100, "a copy without the index of the log is recovered from the log"


def test_it_is_no_longer_than_the_log_may_become(tmp_path: Path) -> None:
    database, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    connection, runway = open_log(database), Runway(Place.of(database), PAGE, 10)
    before = log.stat().st_size
    reach(runway, 11)
    assert log.stat().st_size == before
    connection.close()


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    runway = Runway(Place.of(tmp_path / "a.db"), PAGE, 1_000)
    reach(runway, 1)
    assert not (tmp_path / "a.db-wal").exists()
