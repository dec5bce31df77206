"""What all commands have in common."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ganger.cli.main import choose_exit, main
from ganger.core.errors import AuditBroken, GangerError, NotAllowed, StoreFull, TaskNotFound, WrongStatus
from tests.unit.cli.console import Console


def test_the_store_is_named_by_a_flag_or_the_environment(console: Console) -> None:
    console.submit("--store", "sqlite:flag.db", "--", "true")
    console.submit("--", "true")

    assert (console.folder / "flag.db").exists()
    assert console.database.exists()
    assert "[bad_input]" in console.err("ls", "--store", "tape:x", exits=2)


def test_a_file_of_settings_is_found_from_a_folder_below(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    (console.folder / "ganger.toml").write_text("store = 'sqlite:file.db'")
    (console.folder / "deep").mkdir()
    monkeypatch.chdir(console.folder / "deep")
    monkeypatch.delenv("GANGER_STORE", raising=False)

    assert CliRunner().invoke(main, ["submit", "--", "true"]).exit_code == 0
    assert (console.folder / "file.db").exists()


def test_each_branch_of_the_errors_has_its_exit_code() -> None:
    errors = (GangerError("x"), TaskNotFound("x"), WrongStatus("x"), StoreFull("x"), AuditBroken("x"), NotAllowed("x"))

    assert [choose_exit(error) for error in errors] == [1, 3, 4, 5, 6, 7]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk here is always full")
@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"], ["export"]], ids=" ".join)
def test_output_that_cannot_be_written_is_told_without_a_trace(console: Console, words: list[str]) -> None:
    console.submit("--", "true")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from ganger.cli.main import main; main()", *words, "--store", console.url],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (1, "ganger: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help(console: Console, name: str) -> None:
    assert "Usage: " in console.out(name, "--help")


def test_who_misspells_a_command_is_told_the_one_that_was_meant(console: Console) -> None:
    assert "Did you mean cancel?" in console.err("cancle", "1", exits=2)
    assert "Did you mean pause?" in console.err("queue", "pauze", "1", exits=2)
    assert "No such command 'xyz'" in console.err("xyz", exits=2)


def test_what_is_done_is_in_the_audit_log(console: Console) -> None:
    console.run("hold", console.submit("--", "true"))

    assert console.lines("audit", "verify", "--json")[0]["lines"] == 2


def test_what_is_heavy_is_loaded_by_the_command_that_needs_it() -> None:
    program = (
        "import sys; from ganger.cli.main import main; list(main.commands.values());"
        "print({'asyncio', 'apsw', 'rich', 'msgspec'} & set(sys.modules))"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=True)

    assert ran.stdout.strip() == "set()"


def test_a_command_is_loaded_without_the_others() -> None:
    program = (
        "import sys; from ganger.cli.main import main; main.commands['ls']; print('ganger.cli.queue' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=True)

    assert ran.stdout.strip() == "False"
