"""Commands on a store that a database server has: what is this machine's own is kept in its home."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ganger.cli.main import main

URL = "postgresql://ganger@db.example/ganger"


def call(*words: str, home: Path) -> Result:
    return CliRunner().invoke(main, [*words], env={"GANGER_STORE": URL, "GANGER_HOME": str(home)})


def test_tokens_are_kept_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    made = call("token", "add", "--scope", "read", "ci", home=home)
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("ganger_")
    assert "ci" in call("token", "ls", home=home).stdout
    assert (home / "ganger-postgres-tokens").exists()
    assert list(elsewhere.iterdir()) == []
    assert call("token", "rm", "ci", home=home).stdout == "ci\n"


def test_a_unit_of_systemd_names_the_address_and_runs_in_the_home(tmp_path: Path) -> None:
    unit = call("systemd", "--user", home=tmp_path)
    assert unit.exit_code == 0, unit.output
    assert f"--store {URL}" in unit.stdout
    assert f"WorkingDirectory={tmp_path}" in unit.stdout


def test_whoever_lists_workers_without_a_token_is_told_so() -> None:
    listed = CliRunner().invoke(main, ["workers", "ls", "--url", "http://127.0.0.1:9"], env={"GANGER_TOKEN": ""})

    assert listed.exit_code == 7
    assert "wants a token: set GANGER_TOKEN" in listed.stderr
