"""SQL that travels with a package: files of one statement each, beside the code that runs them."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Final


def load_queries(package: str, folder: str) -> dict[str, str]:
    """The statements of a package's folder, by file name without `.sql`."""
    return {file.stem: file.read_text("utf-8") for file in list_files(package, folder)}


def list_files(package: str, folder: str) -> list[Path]:
    """The `.sql` files of a package's folder, sorted by name."""
    return sorted(Path(import_module(package).__path__[0], folder).glob("*.sql"))


Q: Final = SimpleNamespace(**load_queries("ganger.databases", "postgres/queries"))
"""The statements that every schema needs, whatever is in it."""
