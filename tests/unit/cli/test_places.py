"""Where code is looked for."""

from pathlib import Path

from ganger.assembly.settings import find_places


def test_named_folders_come_first_then_this_one_then_that_of_the_settings(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    assert find_places(below) == (str(below),)
    (tmp_path / "ganger.toml").touch()
    assert find_places(below, ["src", "/opt/code", ".."]) == (
        str(below / "src"), "/opt/code", str(tmp_path / "a"), str(below), str(tmp_path),
    )  # fmt: skip
    assert find_places(tmp_path) == (str(tmp_path),)
