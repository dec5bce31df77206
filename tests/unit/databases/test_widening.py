"""Several rows by one statement are the same rows as one by one."""

import apsw
import pytest

from ganger.databases.sqlite import run_wide

INSERT = "INSERT INTO book (name, n) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n"
UPDATE = "UPDATE book SET n = n + column1 FROM (VALUES (?, ?)) WHERE name = column2"


def open_book() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE book (name TEXT PRIMARY KEY, n INTEGER)")
    return connection


@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 100])
def test_each_row_is_stored_once(count: int) -> None:
    rows = [(f"({number})", number) for number in range(count)]
    wide, narrow = open_book(), open_book()
    run_wide(wide, INSERT, rows)
    narrow.executemany(INSERT, rows)
    run_wide(wide, UPDATE, [(7, name) for name, _ in rows])
    narrow.executemany(UPDATE, [(7, name) for name, _ in rows])

    assert list(wide.execute("SELECT * FROM book")) == list(narrow.execute("SELECT * FROM book"))
    assert len(list(wide.execute("SELECT * FROM book"))) == count


def test_a_name_that_comes_twice_is_counted_twice() -> None:
    book = open_book()
    run_wide(book, INSERT, [("a", 1), ("b", 2), ("a", 3)])

    assert list(book.execute("SELECT name, n FROM book ORDER BY name")) == [("a", 4), ("b", 2)]
