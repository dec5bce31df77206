"""`ganger secret`: set, listed by name, removed, and never shown."""

import os
from pathlib import Path

import pytest

from ganger.assembly.secrets import SecretFolder, locate_secrets, open_secrets
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput, NotFound, PayloadTooLarge
from tests.unit.cli.console import Console


@pytest.fixture
def folder(tmp_path: Path) -> SecretFolder:
    return SecretFolder(tmp_path / "secrets")


def test_a_secret_is_set_listed_and_removed(tmp_path: Path) -> None:
    console = Console(tmp_path)
    assert console.err("secret", "ls").startswith("no secrets yet")
    assert console.out("secret", "set", "db", types="hunter2\n") == "db"
    assert console.out("secret", "ls") == "db"
    assert console.lines("secret", "ls", "--json") == [{"secret": "db"}]
    path = tmp_path / "tasks.db-secrets" / "db"
    assert path.read_text() == "hunter2"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert console.out("secret", "rm", "db") == "db"
    console.run("secret", "rm", "db", exits=3)


def test_what_cannot_be_a_secret_is_refused(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.run("secret", "set", "../db", types="hunter2", exits=2)
    console.run("secret", "set", "db", types="abc", exits=2)
    assert "memory" not in console.err("secret", "ls", "--store", "memory:", exits=2)


def test_a_new_value_takes_the_place_of_the_one_before(folder: SecretFolder) -> None:
    folder.put("db", "first value")
    folder.put("db", "second\nvalue")
    assert (folder.find("db"), folder.find("other"), folder.names()) == ("second\nvalue", None, ["db"])
    with pytest.raises(PayloadTooLarge):
        folder.put("db", "x" * 100_000)
    folder.remove("db")
    with pytest.raises(NotFound):
        folder.remove("db")


def test_a_file_that_others_can_read_is_refused_in_our_own_folder(folder: SecretFolder) -> None:
    folder.put("db", "hunter2")
    (folder.path / "db").chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600"):
        folder.find("db")
    assert SecretFolder(folder.path, named=True).find("db") == "hunter2"


def test_a_folder_that_the_settings_name_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("hunter2\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "db").symlink_to(tmp_path / "real")
    (tmp_path / "mounted" / "bad").write_bytes(b"\xff\xff\xff\xff")
    secrets = open_secrets(Settings(store="memory:", secrets=str(tmp_path / "mounted")))
    assert secrets.find("db") == "hunter2"
    with pytest.raises(BadInput, match="UTF-8"):
        secrets.find("bad")


def test_where_secrets_are(tmp_path: Path) -> None:
    def locate(**said: str) -> Path | None:
        found = locate_secrets(Settings(**said))
        return None if found is None else found.path

    assert locate(store=f"sqlite:{tmp_path / 'a.db'}") == tmp_path / "a.db-secrets"
    assert locate(store="memory:") is None
    assert locate(store="http://127.0.0.1:1") == Path(os.getcwd()) / "ganger-secrets"
    assert open_secrets(Settings(store="memory:")).find("x") is None
