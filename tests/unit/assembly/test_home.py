"""What commands find in their environment."""

from pathlib import Path

from ganger.assembly.node import PLAIN_PATH, _find_ourselves, find_home


def test_a_command_finds_the_program_of_its_node(tmp_path: Path) -> None:
    plain, own = tmp_path / "plain", tmp_path / "own"
    for folder in (plain, own):
        folder.mkdir()
    assert _find_ourselves(str(plain), own) == str(plain), "there is none to be found"
    (own / "ganger").touch(0o755)
    assert _find_ourselves(str(plain), own) == f"{plain}:{own}"
    (plain / "ganger").touch(0o755)
    assert _find_ourselves(str(plain), own) == str(plain)


def test_the_environment_is_plain() -> None:
    environment = find_home().environment
    assert environment.keys() == {"PATH", "HOME", "LANG", "USER"}
    assert environment["PATH"].startswith(PLAIN_PATH)
