"""A password that is kept apart from the address, and what is handed on of both."""

from pathlib import Path

import pytest

from ganger.assembly.disbatch import name_database
from ganger.assembly.location import fill_address
from ganger.assembly.node import _tell_store
from ganger.assembly.settings import Settings, find_harmless, find_passed, load
from ganger.core.errors import BadInput

PLAIN = "postgresql://ada@db/ganger"
SECRET = "postgresql://ada:hidden@db/ganger"


def test_a_password_comes_from_its_file_if_the_address_has_none(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("w/ord\n")
    settings = Settings(store=PLAIN, store_password_file=str(tmp_path / "password"))

    assert fill_address(settings, settings.store) == "postgresql://ada:w%2Ford@db/ganger"
    assert fill_address(settings, SECRET) == SECRET
    assert fill_address(Settings(), PLAIN) == PLAIN


def test_a_file_without_a_password_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        fill_address(Settings(store_password_file=str(tmp_path / "none")), PLAIN)
    (tmp_path / "empty").touch()
    with pytest.raises(BadInput):
        fill_address(Settings(store_password_file=str(tmp_path / "empty")), PLAIN)


def test_the_file_of_a_password_is_meant_from_the_folder_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "ganger.toml").write_text('store_password_file = "password"')
    (tmp_path / "below").mkdir()

    assert load(tmp_path / "below", {}).store_password_file == str(tmp_path / "password")


def test_attempts_are_told_the_store_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    far = {"GANGER_URL": "http://127.0.0.1:8470"}

    assert _tell_store(Settings(store=SECRET), {}) == {"GANGER_STORE": PLAIN, "GANGER_HOME": str(tmp_path)}
    assert "GANGER_STORE" not in _tell_store(Settings(store=SECRET), far), "they ask the server"
    assert _tell_store(Settings(store=PLAIN), far)["GANGER_STORE"] == PLAIN
    kept = Settings(store=PLAIN, store_password_file="password")
    assert _tell_store(kept, far)["GANGER_STORE_PASSWORD_FILE"] == str(tmp_path / "password")


def test_settings_do_not_show_what_is_secret() -> None:
    shown = repr(Settings(store=SECRET, read_url=SECRET, token="hidden", s3_secret="hidden", s3_key="seen"))

    assert "hidden" not in shown
    assert "seen" in shown
    assert "ada@db" in shown


def test_processes_that_import_code_of_users_get_no_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORE", "READ_URL"):
        monkeypatch.setenv(f"GANGER_{name}", SECRET)
    for name in ("TOKEN", "S3_SECRET"):
        monkeypatch.setenv(f"GANGER_{name}", "hidden")

    assert not [name for name, value in find_harmless().items() if "hidden" in value]
    assert find_harmless()["GANGER_STORE"] == PLAIN
    assert [name for name, value in find_harmless(token=True).items() if "hidden" in value] == ["GANGER_TOKEN"]


def test_clients_of_disbatch_are_told_the_name_of_the_database_alone() -> None:
    assert name_database("mongodb://ada:hid/den@db/ganger") == "ganger"


def test_a_pattern_of_variables_for_functions_passes_no_password_on() -> None:
    given = {"GANGER_STORE": SECRET, "GANGER_READ_URL": SECRET, "GANGER_TOKEN": "hidden", "GANGER_S3_SECRET": "hidden"}
    passed = find_passed(Settings(pass_env="GANGER_*, AWS_*"), {**given, "AWS_REGION": "here", "OTHER": "x"})

    assert passed == {"GANGER_STORE": PLAIN, "GANGER_READ_URL": PLAIN, "AWS_REGION": "here"}
    assert find_passed(Settings(pass_env="GANGER_TOKEN"), given) == {"GANGER_TOKEN": "hidden"}
