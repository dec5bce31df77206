"""The journal gives back what was written, up to the last whole record, and nothing else."""

from pathlib import Path

import pytest

from ganger.node.guardian.journal import FORMAT, Begun, Forgotten, Journal, NewerFormat, Opening, Past, read_past
from ganger.node.guardian.messages import End


def write(path: Path, *records: Begun | End | Forgotten) -> Journal:
    journal = Journal(str(path))
    journal.renew([], [])
    for record in records:
        journal.note(record)
    journal.commit()
    return journal


def end(task: int, code: int = 0) -> End:
    return End(task, 1, "exit", code=code, serial=task)


def test_what_began_and_ended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, Begun(1, 1, 1), Begun(2, 1, 2), end(1, 7), Begun(3, 1, 3), end(3), Forgotten([(3, 1)])).close()
    past = read_past(str(path))
    assert past == Past({(2, 1): Begun(2, 1, 2)}, {(1, 1): end(1, 7)})
    assert past.serial == 2


def test_a_journal_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_past(str(tmp_path / "journal")) == Past({}, {})
    assert read_past(str(tmp_path / "journal")).serial == 0


def test_a_record_that_was_cut_short_was_never_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = write(path, Begun(1, 1, 1), end(1))
    whole = len(path.read_bytes())
    journal.note(end(2))
    journal.commit()
    journal.close()
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        assert read_past(str(path)).ended == {(1, 1): end(1)}
    path.write_bytes(data)
    assert read_past(str(path)).ended == {(1, 1): end(1), (2, 1): end(2)}


def test_a_flipped_bit_ends_the_reading_there(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = write(path, end(1))
    whole = len(path.read_bytes())
    journal.note(end(2))
    journal.commit()
    journal.close()
    data = path.read_bytes()
    for at in range(whole, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert read_past(str(path)).ended == {(1, 1): end(1)}


def test_a_renewed_journal_holds_what_counts_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = write(path, *(end(task) for task in range(100)))
    journal.renew([Begun(500, 1, 500)], [end(7)])
    journal.note(end(8))
    journal.commit()
    journal.close()
    past = read_past(str(path))
    assert set(past.begun) == {(500, 1)}
    assert set(past.ended) == {(7, 1), (8, 1)}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [it.name for it in tmp_path.iterdir()] == ["journal"]


def test_a_journal_grows_large_and_is_small_again_when_renewed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = write(path)
    for _ in range(300):
        journal.note(Forgotten([(1, 1)] * 2000))
        journal.commit()
    assert journal.is_large is True
    journal.renew([], [])
    journal.close()
    assert path.stat().st_size < 100


def test_a_journal_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = write(path)
    journal.note(Opening(FORMAT + 1))
    journal.commit()
    journal.close()
    with pytest.raises(NewerFormat):
        read_past(str(path))
