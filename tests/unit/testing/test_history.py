"""A history survives the death of its client, and the books show every kind of difference."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from ganger.testing import Books, Entry, History, Outcome, audit, read_history

OK, FAIL, UNSURE = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN


def new_history(path: Path) -> History:
    return History(path, itertools.count(1).__next__)


def submit(*keys: str | int, outcome: Outcome = OK) -> Entry:
    return Entry("a", "submit", keys, 1, 2, outcome)


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    history = new_history(tmp_path / "alice.jsonl")
    with history.record("submit", "k1", 2, args={"queue": "q"}) as call:
        call.ok([22, 23])
    with history.record("submit", "k3") as call:
        call.fail("store_full")
    history.close()
    assert read_history(tmp_path / "alice.jsonl") == (
        Entry("alice", "submit", ("k1", 2), 1, 2, OK, {"queue": "q"}, [22, 23]),
        Entry("alice", "submit", ("k3",), 3, 4, FAIL, None, "store_full"),
    )


def test_an_exception_leaves_the_call_unknown_and_without_a_return(tmp_path: Path) -> None:
    history = new_history(tmp_path / "a.jsonl")
    with pytest.raises(TimeoutError), history.record("submit", "k"):
        raise TimeoutError
    history.close()
    assert read_history(tmp_path / "a.jsonl") == (Entry("a", "submit", ("k",), 1, None, UNSURE),)


def test_a_torn_last_line_reads_as_never_written(tmp_path: Path) -> None:
    history = new_history(tmp_path / "a.jsonl")
    with history.record("submit", "k") as call:
        call.ok()
    history.close()
    whole = (tmp_path / "a.jsonl").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "a.jsonl").write_bytes(whole[:length])
        outcomes = [entry.outcome for entry in read_history(tmp_path / "a.jsonl")]
        assert outcomes in ([], [UNSURE])


def test_damage_in_the_middle_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"line":"cal\n{"line":"called","number":1,"at":1,"op":"submit","keys":[]}\n')
    with pytest.raises(msgspec.DecodeError):
        read_history(tmp_path / "a.jsonl")


def test_two_clients_cannot_share_a_file(tmp_path: Path) -> None:
    new_history(tmp_path / "a.jsonl").close()
    with pytest.raises(FileExistsError):
        new_history(tmp_path / "a.jsonl")


def test_threads_of_one_client_do_not_mix_their_calls(tmp_path: Path) -> None:
    history = new_history(tmp_path / "a.jsonl")

    def work(name: int) -> None:
        for number in range(20):
            with history.record("submit", f"{name}-{number}") as call:
                call.ok(f"{name}-{number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history.close()
    entries = read_history(tmp_path / "a.jsonl")
    assert len(entries) == 80
    assert all(entry.result == entry.keys[0] for entry in entries)


def test_a_killed_client_leaves_its_last_call_unknown(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from ganger.testing import History\n"
        "history = History(Path(sys.argv[1]), time.monotonic_ns)\n"
        "with history.record('submit', 'done') as call: call.ok()\n"
        "history.called('submit', 'open'); print('ready', flush=True); sys.stdin.read()\n"
    )
    path = tmp_path / "a.jsonl"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        client.send_signal(signal.SIGKILL)
    assert {entry.keys: entry.outcome for entry in read_history(path)} == {("done",): OK, ("open",): UNSURE}


def test_the_books_balance_when_all_that_was_acknowledged_is_there() -> None:
    books = audit([[submit("a"), submit("b", "c")], [submit("d", outcome=FAIL)]], ["c", "b", "a"])
    assert books.balanced
    assert books.sent == {"a", "b", "c", "d"}
    assert books.acknowledged == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("entries", "present", "name", "keys"),
    [
        ([submit("a", "b")], ["a"], "lost", {"b"}),
        ([submit("a")], ["a", "x"], "unexpected", {"x"}),
        ([submit("a", outcome=FAIL)], ["a"], "unexpected", {"a"}),
        ([submit("a")], ["a", "a"], "duplicated", {"a"}),
        ([submit("a", outcome=UNSURE)], ["a"], "recovered", {"a"}),
    ],
)
def test_each_difference_has_its_set(entries: list[Entry], present: list[str], name: str, keys: set[str]) -> None:
    books = audit([entries], present)
    sets = {each: getattr(books, each) for each in ("lost", "unexpected", "duplicated", "recovered")}
    assert {each: found for each, found in sets.items() if found} == {name: keys}
    assert books.balanced == (name == "recovered")


def test_an_unknown_submit_that_never_happened_is_no_difference() -> None:
    books = audit([[submit("a", outcome=UNSURE)]], [])
    assert books.balanced
    assert not books.recovered


def test_asking_again_settles_an_unknown_submit() -> None:
    acknowledged = audit([[submit("a", outcome=UNSURE), submit("a")]], ["a"])
    refused = audit([[submit("a", outcome=UNSURE), submit("a", outcome=FAIL)]], ["a"])
    assert not acknowledged.recovered
    assert refused.recovered == {"a"}
    assert acknowledged.balanced
    assert refused.balanced


def test_the_books_count_how_often_each_ran() -> None:
    runs = [Entry("w", "run", (key,), 3) for key in ("a", "b", "a")]
    books = audit([[submit("a", "b", "c")], runs], ["a", "b", "c"])
    assert books.runs == {"a": 2, "b": 1}
    assert books.ran_again == {"a"}


def test_the_books_print_as_a_small_table() -> None:
    nothing: frozenset[str | int] = frozenset()
    many = frozenset(f"k{number}" for number in range(7))
    books = Books(many, many, many, frozenset({"k1"}), nothing, nothing, nothing, {"k2": 2})
    assert str(books).splitlines() == [
        "sent                  7",
        "acknowledged          7",
        "present               7",
        "recovered             0",
        "ran again             1  k2",
        "duplicated            0",
        "unexpected            0",
        "lost                  1  k1",
    ]
