"""`ganger token`: made, listed, removed."""

import json
from pathlib import Path

from click.testing import CliRunner

from ganger.cli.main import main


def call(folder: Path, *words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, ["token", words[0], "--store", f"sqlite:{folder / 'tasks.db'}", *words[1:]])
    return ran.exit_code, ran.stdout


def test_a_token_is_shown_once_listed_and_removed(tmp_path: Path) -> None:
    code, token = call(tmp_path, "add", "--scope", "read", "--lifetime", "1h", "ci")
    assert code == 0
    assert token.startswith("ganger_")

    code, listed = call(tmp_path, "ls", "--json")
    told = json.loads(listed)
    assert (told["name"], told["scopes"]) == ("ci", ["read"])
    assert told["expires"] - told["created"] == 3_600_000
    assert token.strip() not in listed
    assert "ci" in call(tmp_path, "ls")[1]
    assert call(tmp_path, "rm", "ci") == (0, "ci\n")
    assert call(tmp_path, "rm", "ci")[0] == 3


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    assert call(tmp_path, "add", "--scope", "odd", "ci")[0] == 2
    assert call(tmp_path, "add", "ci")[0] == 2
    call(tmp_path, "add", "--scope", "read", "ci")
    assert call(tmp_path, "add", "--scope", "read", "ci")[0] == 4
    assert CliRunner().invoke(main, ["token", "ls", "--store", "memory:"]).exit_code == 2
