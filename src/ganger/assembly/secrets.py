"""The secrets of a node: a folder that only its owner may enter, with a file for each, named as the secret.

A file is replaced whole and is on disk before `put` returns, so a crash leaves the value of before or of after. Values
are read when they are needed, so a new one holds from the next attempt on. A folder that the settings name may be
another program's (systemd's or a container's) and is taken as it is; in our own a file that others can read is refused.
"""

import os
import stat
from pathlib import Path
from typing import Final

from ganger.assembly.location import is_remote, locate_own
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput, NotFound, PayloadTooLarge
from ganger.node.secrets import NO_SECRETS, Secrets, check_name, check_value, is_name
from ganger.runtime.disk import opened, read_whole, sync_folder, translated, write_whole

_LARGEST: Final = 64 << 10
_OTHERS: Final = 0o077
_FAR: Final = "ganger-secrets"


class SecretFolder:
    """One folder, there or not. `named`: the settings say where it is."""

    def __init__(self, path: Path, *, named: bool = False) -> None:
        self.path = path
        self._named = named

    def find(self, name: str) -> str | None:
        """The value without the line break at its end; None if there is none."""
        path = self.path / check_name(name)
        with translated(f"read the secret {path}"):
            try:
                content = self._read(path)
            except FileNotFoundError:
                return None
        try:
            return check_value(name, content.decode().removesuffix("\n"))
        except UnicodeDecodeError:
            raise BadInput(f"the secret {name!r} is not UTF-8 text", secret=name) from None

    def _read(self, path: Path) -> bytes:
        # A container's secrets are links into a folder of their own; in our folder nobody may put one.
        with opened(path.resolve() if self._named else path, os.O_RDONLY) as fd:
            if not self._named and stat.S_IMODE(os.fstat(fd).st_mode) & _OTHERS:
                raise BadInput(f"{path} can be read by others: do `chmod 600` on it", secret=path.name)
            content = read_whole(fd, _LARGEST + 1, 0)
        if len(content) > _LARGEST:
            raise PayloadTooLarge(f"the secret {path.name!r} has more than {_LARGEST} bytes", limit=_LARGEST)
        return content

    def put(self, name: str, value: str) -> None:
        """Keep a value, in place of the one before."""
        path, content = self.path / check_name(name), check_value(name, value).encode()
        if len(content) > _LARGEST:
            raise PayloadTooLarge(f"a secret has at most {_LARGEST} bytes", limit=_LARGEST)
        with translated(f"keep the secret {path}"):
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            _replace(path, content)

    def remove(self, name: str) -> None:
        path = self.path / check_name(name)
        with translated(f"remove the secret {path}"):
            try:
                path.unlink()
            except FileNotFoundError:
                raise NotFound(f"there is no secret {name!r}; see `ganger secret ls`", secret=name) from None
            sync_folder(self.path)

    def names(self) -> list[str]:
        """The names alone."""
        with translated(f"list the secrets {self.path}"):
            try:
                return sorted(entry.name for entry in os.scandir(self.path) if entry.is_file() and is_name(entry.name))
            except FileNotFoundError:
                return []


def _replace(path: Path, content: bytes) -> None:
    """Write it whole beside its place, for its owner alone, and put it there in one step."""
    draft = path.with_name(f"{path.name}~")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_whole(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(path)
    sync_folder(path.parent)


def locate_secrets(settings: Settings) -> SecretFolder | None:
    """The folder of the settings, or the one beside the store; in this folder for a node of a server."""
    if settings.secrets:
        return SecretFolder(Path(settings.secrets), named=True)
    if is_remote(settings):
        return SecretFolder(Path.cwd() / _FAR)
    found = locate_own(settings)
    return (
        None if found is None else SecretFolder(found.database.with_name(f"{found.database.name}-secrets").absolute())
    )


def open_secrets(settings: Settings) -> Secrets:
    return locate_secrets(settings) or NO_SECRETS
