"""The raw peer writes the rows it claims to write."""

from __future__ import annotations

from pathlib import Path

from bench.peers.raw_sqlite import Write, make_transactions, open_connection, plain_script, play
from bench.peers.settings import RawSettings


def test_every_task_is_submitted_claimed_and_settled(tmp_path: Path) -> None:
    connection = open_connection(tmp_path / "raw.db", RawSettings())
    assert play(connection, plain_script(), 250, 100) > 0
    assert connection.execute("SELECT status, fence, count(*) FROM task GROUP BY 1, 2").fetchall() == [(1, 1, 250)]
    assert connection.execute("SELECT count(*) FROM attempt").get == 250
    assert connection.execute("SELECT fact, count(*) FROM event GROUP BY 1").fetchall() == [
        ("claimed", 3),
        ("settled", 3),
        ("submitted", 3),
    ]
    assert connection.execute("SELECT count(*) FROM tally").get == 3
    connection.close()


def test_the_peer_syncs_every_commit(tmp_path: Path) -> None:
    connection = open_connection(tmp_path / "raw.db", RawSettings())
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2
    connection.close()


def test_a_lagging_write_takes_the_ids_of_the_batch_before() -> None:
    phase = (Write("settle", lambda span: [(span.start,)], lag=1), Write("claim", lambda span: [(span.start,)]))
    made = list(make_transactions(phase, [range(1, 3), range(3, 5)]))
    assert made == [
        (("claim", [(1,)]),),
        (("settle", [(1,)]), ("claim", [(3,)])),
        (("settle", [(3,)]),),
    ]
