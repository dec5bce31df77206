"""What is asked for often is light: it loads only what it needs, so that it is there at once."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from ganger.databases.sqlite.checksums import find_layer
from tests.unit.cli.console import Console

HEAVY: Final = frozenset({"apsw", "asyncio", "click", "msgspec", "rich", "inspect", "ssl", "logging"})
"""What `import ganger` does without."""

LATER: Final = frozenset({"asyncio", "rich", "ssl", "logging", "tomllib", "importlib.resources", "concurrent.futures"})
"""What a look at the tasks does without."""

LOADED: Final = "import sys; print(*sorted(sys.modules), file=sys.stderr)"


def _loaded(program: str, *words: str, **environment: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True, text=True, check=True, timeout=90, env={**os.environ, **environment},
    )  # fmt: skip
    return set(found.stderr.split())


def _loaded_by_command(store: str, *words: str) -> set[str]:
    program = "import sys; from ganger.cli.main import main; main(standalone_mode=False);" + LOADED
    return _loaded(program, *words, GANGER_STORE=store)


def test_the_package_is_imported_without_its_parts() -> None:
    loaded = _loaded(f"import ganger; {LOADED}")

    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("ganger")} == {"ganger"}


@pytest.mark.parametrize("words", [("ls",), ("ls", "--queue", "default", "--status", "failed"), ("stats",)])
def test_a_look_at_the_tasks_starts_no_engine(console: Console, words: tuple[str, ...]) -> None:
    console.submit("--", "true")

    loaded = _loaded_by_command(console.url, *words)

    assert not loaded & LATER
    assert "ganger.engine.engine" not in loaded
    assert "ganger.databases.sqlite.shared" not in loaded


def test_a_look_that_only_an_owner_can_take_is_taken_all_the_same(console: Console) -> None:
    console.submit("--", "true")
    Path(f"{console.database}-owner").write_bytes(b"")

    assert "ganger.databases.sqlite.shared" in _loaded_by_command(console.url, "ls")
    assert [task["id"] for task in console.lines("ls", "--json")] == [1]


def test_what_a_glance_cannot_read_is_told_by_the_engine(console: Console) -> None:
    import apsw

    console.submit("--", "true")
    connection = apsw.Connection(str(console.database), vfs=find_layer())
    connection.execute("DROP TABLE task; UPDATE migration SET checksum = 'another'")
    connection.close()

    assert "[migration_changed]" in console.err("ls", exits=6)


def test_tasks_of_another_boot_are_shown_as_an_owner_would_show_them(console: Console) -> None:
    import apsw

    console.submit("--", "true")
    connection = apsw.Connection(str(console.database), vfs=find_layer())
    connection.execute("UPDATE store SET boot = 'another'")
    connection.close()

    assert "ganger.databases.sqlite.shared" in _loaded_by_command(console.url, "ls")
    assert "ganger.databases.sqlite.shared" not in _loaded_by_command(console.url, "ls")
