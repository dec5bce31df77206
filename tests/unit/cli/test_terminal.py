"""What a person sees: lines that fit the terminal, lists that say what is there, hints what to do next."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.cli.main import main
from ganger.cli.overview import _SECTIONS
from ganger.cli.printing import fold, lay_out
from ganger.cli.words import read_duration, say_duration
from tests.unit.cli.console import Console

pytestmark = pytest.mark.slow


def _see(words: list[str], columns: int, store: str, *, colours: bool = False) -> str:
    """What a command shows on a terminal of this width."""
    there, here = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(columns),
        "GANGER_STORE": store,
        "TERM": "xterm",
        "NO_COLOR": "" if colours else "1",
    }
    program = "from ganger.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=here, stdout=here, stderr=here, env=environment
    ) as process:
        os.close(here)
        seen = b"".join(iter(lambda: _read(there), b""))
        process.wait(60)
    os.close(there)
    return seen.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        # Linux tells the end of a terminal by an error.
        return b""


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_no_line_of_a_table_or_a_message_is_wider_than_the_terminal(console: Console, columns: int) -> None:
    long = console.submit("--description", "word " * 60, "--", "true")
    console.run("hold", long, "--reason", "because " * 30)

    for words in (["ls"], ["show", str(long)], ["why", str(long)], ["kill", "99"], ["stats"], ["rm", "99"]):
        seen = _see(words, columns, console.url).splitlines()
        assert seen
        assert max(map(len, seen)) <= columns, (words, seen)


def test_a_message_is_folded_between_words_and_a_command_in_it_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")

    assert fold("ganger: make it with `ganger queue create --max-active 3`", "  ") == [
        "ganger: make it with `ganger",
        "  queue create --max-active 3`",
    ]
    assert fold("ganger: it is held, see `ganger why 7`", "  ") == ["ganger: it is held, see", "  `ganger why 7`"]
    assert fold("short", "  ") == ["short"]
    assert fold("x" * 40) == ["x" * 40]


def test_where_nobody_watches_nothing_is_folded_cut_or_coloured(console: Console) -> None:
    text = "word " * 60
    task = console.submit("--description", text, "--", "true")

    assert text.strip() in console.out("ls")
    assert "\x1b" not in console.out("ls") + console.out("show", task) + console.out("stats")


def test_a_status_has_its_colour_on_a_terminal_unless_none_is_wanted(console: Console) -> None:
    console.run("hold", console.submit("--", "true"))

    assert "\x1b[35mheld" in _see(["ls"], 80, console.url, colours=True)
    assert "\x1b" not in _see(["ls"], 80, console.url)


def test_a_person_sees_how_far_a_wait_is_and_that_many_tasks_are_stored(console: Console, tmp_path: Path) -> None:
    ids = [str(console.submit("--", "true")) for _ in range(2)]
    exported = console.out("export").splitlines()
    many, task = tmp_path / "many.jsonl", json.loads(exported[-1])
    lines = [json.dumps({**task, "id": number, "position": number}) for number in range(1, 1_001)]
    many.write_text("\n".join([*(line for line in exported if '"task"' not in line), *lines]))

    waiting = _see(["wait", "--timeout", "1s", *ids], 80, console.url)
    assert "waiting" in waiting
    assert "0/2" in waiting
    group = tmp_path / "group.toml"
    group.write_text("".join(f"[tasks.t{n}]\nshell = 'true'\n" for n in range(3)))
    (made,) = console.lines("graph", str(group), "--json")
    assert "0/3" in _see(["wait", "--timeout", "1s", str(made["group"])], 80, console.url)
    assert "storing 1,000 tasks" in _see(["import", str(many)], 80, f"sqlite:{tmp_path}/other.db")


def test_only_the_last_column_is_cut() -> None:
    lines = lay_out(("ID", "NODE", "TASK"), [("7", "a-long-name", "t" * 50), ("12", "b", "x")], 30)

    assert lines == ["ID  NODE         TASK", " 7  a-long-name  ttttttttttttt…"[:29] + "…", "12  b            x"]


def test_where_the_last_column_is_not_enough_the_widest_words_are_cut() -> None:
    lines = lay_out(("WHEN", "COUNT", "TASK"), [("every hour of the day", "12345678901", "t" * 50)], 40)

    assert lines[1] == "every hour of …  12345678901  ttttttttt…"
    assert lay_out(("A", "B"), [("a" * 30, "b" * 30)], 5)[1] == "a" * 9 + "…  " + "b" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("2m30s", 150_000), ("1h", 3_600_000), ("1s500ms", 1_500), ("0s", 0)]
)
def test_a_length_of_time_is_said_exactly(text: str, milliseconds: int) -> None:
    assert say_duration(milliseconds) == text


def test_what_is_said_of_a_duration_can_be_written() -> None:
    assert read_duration(say_duration(90_000 // 90 * 45)) == 45_000


def test_every_command_has_its_place_in_the_list_and_one_line(console: Console) -> None:
    seen = console.out("--help")

    listed = [line.split()[0] for line in seen.splitlines() if line.startswith("  ")]
    assert {name for names in _SECTIONS.values() for name in names} <= set(main.commands) <= set(listed)
    assert "..." not in seen.split("Options:")[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(console: Console, shell: str) -> None:
    assert "_GANGER_COMPLETE" in console.out("completion", shell)
    assert "is not one of" in console.err("completion", "tcsh", exits=2)


def test_a_shell_completes_commands_and_words(console: Console, tmp_path: Path) -> None:
    def complete(words: str, place: int) -> str:
        environment = {"_GANGER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        program = "from ganger.cli.main import main; main(prog_name='ganger')"
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environment}, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        return ran.stdout

    assert "plain,family" in complete("ganger fam", 1)
    assert "plain,succeeded" in complete("ganger ls --status su", 3)


def test_an_empty_answer_says_what_to_do(console: Console) -> None:
    console.run("queue", "create", "work")

    assert "ganger submit" in console.err("ls")
    assert console.err("ls", "--queue", "work") == "no task is like that"
    assert "ganger up" in console.err("nodes")
    assert "schedule add" in console.err("schedule", "ls")
    assert console.err("kick", "--queue", "work") == "nothing in this queue is held or delayed"
    assert "ganger queue ls" in console.err("ls", "--queue", "play", exits=3)
    assert "ganger up" in console.out("why", console.submit("--", "true"))
