"""SQLite's log, judged beyond the place where SQLite ceases to read it."""

import asyncio
import shutil
from pathlib import Path

import apsw
import pytest

from ganger.databases.sqlite.checksums import find_layer
from ganger.databases.sqlite.logfile import read_log
from ganger.databases.sqlite.place import Place
from tests.unit.databases.counter import Line, lines, opened

HEAD, FRAME = 32, 24 + 4096


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of several commits, of which the last has several frames; behind it lie frames of an earlier round."""
    connection = apsw.Connection(str(tmp_path / "c.db"), vfs=find_layer())
    connection.pragma("journal_mode", "wal")
    connection.wal_autocheckpoint(0)
    connection.execute("CREATE TABLE fact (text TEXT)")
    for _ in range(40):
        connection.execute("INSERT INTO fact VALUES (hex(randomblob(1000)))")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    for _ in range(10):
        connection.execute("INSERT INTO fact VALUES (hex(randomblob(10)))")
    connection.execute("INSERT INTO fact SELECT hex(randomblob(5000)) FROM fact LIMIT 3")
    copy = tmp_path / "copy-wal"
    shutil.copyfile(tmp_path / "c.db-wal", copy)
    connection.close()
    return copy


def test_a_log_ends_where_frames_of_an_earlier_round_lie(log: Path) -> None:
    found = read_log(log)
    assert (found.damage, found.unfinished) == (None, False)
    assert 20 < found.frames < (log.stat().st_size - HEAD) // FRAME
    assert found.end == HEAD + found.frames * FRAME


def test_the_sums_are_the_same_without_the_layer(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_log(log)
    monkeypatch.setattr("ganger.databases.sqlite.logfile.find_layer", lambda: None)
    assert read_log(log) == found


@pytest.mark.parametrize("byte", [0, 9, 17, 25, *(HEAD + at for at in (2, 7, 9, 14, 18, 22, 30, 4000))])
@pytest.mark.parametrize("frame", ["first", "last"])
def test_a_flipped_bit_anywhere_is_damage(log: Path, byte: int, frame: str) -> None:
    whole = read_log(log)
    at = byte if byte < HEAD or frame == "first" else byte + (whole.frames - 1) * FRAME
    content = bytearray(log.read_bytes())
    content[at] ^= 0x10
    log.write_bytes(content)
    found = read_log(log)
    assert found.damage is not None
    assert found.frames == (0 if byte < HEAD or frame == "first" else whole.frames - 1)


def test_half_a_commit_at_the_end_is_what_a_killed_process_leaves(log: Path) -> None:
    whole = read_log(log)
    content = log.read_bytes()
    for back in (1, 2):
        # The head of a frame was written, and its page was not.
        end = HEAD + (whole.frames - back) * FRAME + 24
        log.write_bytes(content[:end] + bytes(4096))
        found = read_log(log)
        assert (found.damage, found.unfinished, found.frames) == (None, True, whole.frames - back)


def test_a_lost_piece_in_the_middle_is_damage(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[HEAD + 3 * FRAME : HEAD + 4 * FRAME] = bytes(FRAME)
    log.write_bytes(content)
    assert "frame 4 is damaged" in str(read_log(log).damage)


def test_a_damaged_log_is_kept_and_told_before_anything_is_written_over_it(tmp_path: Path) -> None:
    told: list[str] = []

    class Heard:
        def event(self, name: str, **fields: object) -> None:
            told.append(name)

    place = Place.of(tmp_path / "copy" / "c.db")

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner:
            for n in range(20):
                await owner.call("submit", Line("ada", n))
            shutil.copytree(
                tmp_path, place.folder, ignore=shutil.ignore_patterns("copy", "*-shm", "*-socket", "*-owner")
            )
        frames = read_log(place.log).frames
        content = bytearray(place.log.read_bytes())
        content[HEAD + (frames - 4) * FRAME + 100] ^= 1
        place.log.write_bytes(content)
        async with opened(place.database, telemetry=Heard()) as heir:
            rows = await heir.read(lines)
            assert rows == [("ada", n) for n in range(len(rows))]
            assert 10 < len(rows) < 20
        (kept,) = place.find_damaged()
        assert kept.read_bytes() == bytes(content)
        assert told == ["log_damaged"]

    asyncio.run(scenario())
