"""SQL that travels with a package: files of one statement each, beside the code that runs them."""

import os
from importlib import import_module
from pathlib import Path


def load_queries(package: str, folder: str) -> dict[str, str]:
    """The statements of a package's folder, by file name without `.sql`."""
    return {file.stem: file.read_text("utf-8") for file in list_files(package, folder)}


def load_query(package: str, folder: str, name: str) -> str:
    """The one statement of this name. FileNotFoundError if there is none."""
    return (_find_folder(package, folder) / f"{name}.sql").read_text("utf-8")


def list_files(package: str, folder: str) -> list[Path]:
    """The `.sql` files of a package's folder, sorted by name."""
    path = _find_folder(package, folder)
    return [path / name for name in sorted(os.listdir(path)) if name.endswith(".sql")]


def _find_folder(package: str, folder: str) -> Path:
    return Path(import_module(package).__path__[0], folder)
