"""Documents as files of one folder: for the machines that have no database, and only one of them at a time.

A document is a file of two lines: the document itself, and its name and version. It is written beside its place,
synced, and moved there under a lock on the folder, if the version is still the one that was asked for; then the folder
is synced. What can go wrong, and why this is right:

- the process dies before the move: a leftover that nobody reads, swept when it is an hour old;
- it dies after the move: others see the new document. Whoever builds upon it syncs the folder, and this with it;
- it is stopped while it holds the lock: others wait, and say that the store is not available. So the lock is held for
  the two calls that compare and move, and never while the disk is at work; making a document is the exception, since
  the number of its term is written first. A process that dies lets go of the lock;
- the folder is on a network, where locks of files can not be trusted: it is refused.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape as glob_escape
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from ganger.coordination.backend import (
    Capabilities,
    Document,
    Listed,
    Listing,
    Reading,
    Version,
    Written,
    bad_document,
    check_fields,
    check_name,
    decode,
    encode,
    pick,
    stale_version,
)
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadDocument, StoreBroken, StoreClosed, StoreNotADatabase, StoreUnavailable
from ganger.databases.sqlite import Host, LocalHost
from ganger.databases.sqlite.place import Place, refuse_place
from ganger.runtime.disk import make_private, opened, sync_folder, translated, try_lock, write_whole
from ganger.runtime.threads import run_whole

_SUFFIX: Final = ".json"
_TERMS: Final = ".terms"
_DRAFT: Final = ".draft"
_LONGEST: Final = 200
_SHOWN: Final = 120
_PATIENCE: Final = 5.0
_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.01
_LEFTOVER: Final = 3_600_000
_LOOK: Final = 50
"""Milliseconds: to read a file costs next to nothing."""


class _Mark(NamedTuple):
    """The second line of a file."""

    name: str
    term: int
    number: int

    @property
    def version(self) -> Version:
        return Version(self.term, self.number)


class FileBackend:
    """`Backend` over a folder of a local disk."""

    def __init__(self, folder: Path, clock: Clock, entropy: Entropy) -> None:
        self._folder = folder
        self._clock = clock
        self._entropy = entropy
        self._closed = False

    @classmethod
    async def open(cls, folder: Path, clock: Clock, entropy: Entropy, host: Host | None = None) -> "FileBackend":
        """The documents of this folder, which is made if it is not there.

        Raises StoreMissingFolder (for the one around it), StoreOnNetworkFilesystem, StoreReadOnly, StoreNotADatabase.
        """
        return await run_whole(cls._open, Place.of(folder).database, clock, entropy, host or LocalHost())

    @classmethod
    def _open(cls, folder: Path, clock: Clock, entropy: Entropy, host: Host) -> "FileBackend":
        if folder.exists() and not folder.is_dir():
            raise StoreNotADatabase(f"{folder} is no folder: name another", path=str(folder))
        if not folder.exists():
            refuse_place(Place(folder), host)
            with translated(f"make the folder {folder}"):
                make_private(folder)
        refuse_place(Place(folder / _TERMS), host)
        backend = cls(folder, clock, entropy)
        backend._sweep()
        return backend

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(look=_LOOK)

    async def read(self, name: str) -> Reading:
        self._check_open()
        found = await run_whole(self._read, self._path(check_name(name)), name)
        document, version = (None, None) if found is None else (found[0], found[1].version)
        return Reading(document, version, self._clock.wall())

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        self._check_open()
        path, body = self._path(check_name(name)), encode(document)
        if version is None:
            given = await self._locked(partial(self._make, path, name, body))
            return Written(given, self._clock.wall())
        given = version._replace(number=version.number + 1)
        draft = await run_whole(self._draft, path, name, body, given)
        try:
            await self._locked(partial(self._replace, path, name, draft, version))
        finally:
            # Moved, there is none left; a write that was refused leaves nothing.
            draft.unlink(missing_ok=True)
        return Written(given, self._clock.wall())

    async def delete(self, name: str, version: Version) -> None:
        self._check_open()
        await self._locked(partial(self._remove, self._path(check_name(name)), name, version))

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        self._check_open()
        found = await run_whole(self._list, prefix, check_fields(fields))
        return Listing(sorted(found, key=lambda entry: entry.name), self._clock.wall())

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the documents are closed: open them again")

    def _path(self, name: str) -> Path:
        safe = quote(name, safe="")
        if len(safe) > _LONGEST:
            safe = f"{safe[:_SHOWN]}~{hashlib.sha256(name.encode()).hexdigest()}"
        return self._folder / f"{safe}{_SUFFIX}"

    async def _locked(self, work: Callable[[], Version]) -> Version:
        """Run a change on a thread as soon as nobody else has the folder. StoreUnavailable if that takes too long."""
        clock = asyncio.get_running_loop()
        end, pause = clock.time() + _PATIENCE, _FIRST_PAUSE
        while (done := await run_whole(self._try, work)) is None:
            if clock.time() > end:
                raise StoreUnavailable(
                    f"another process has kept {self._folder} locked for {_PATIENCE:.0f} s: is it stopped?",
                    path=str(self._folder),
                )
            await asyncio.sleep(pause * (0.5 + self._entropy.uniform()))
            pause = min(pause * 2, _LONGEST_PAUSE)
        return done

    def _try(self, work: Callable[[], Version]) -> Version | None:
        with translated(f"write in {self._folder}"):
            with opened(self._folder, os.O_RDONLY | os.O_DIRECTORY) as lock:
                if not try_lock(lock):
                    return None
                done = work()
            sync_folder(self._folder)
        return done

    def _draft(self, path: Path, name: str, body: bytes, version: Version) -> Path:
        """The file as it shall be, beside its place and on disk."""
        draft = self._folder / f".{self._entropy.token(12).hex()}{_DRAFT}"
        mark = msgspec.json.encode(_Mark(name, *version))
        with translated(f"write {path}"):
            try:
                with _created(draft) as file:
                    write_whole(file, b"%s\n%s\n" % (body, mark))
                    os.fsync(file)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
        return draft

    def _make(self, path: Path, name: str, body: bytes) -> Version:
        if path.exists():
            raise stale_version(name)
        given = Version(self._next_term(), 1)
        self._draft(path, name, body, given).replace(path)
        return given

    def _next_term(self) -> int:
        """A number that no document was made with: on disk before it is used."""
        terms = self._folder / _TERMS
        last = terms.read_text() if terms.exists() else "0"
        if not last.strip().isdecimal():
            raise bad_document(_TERMS, "it has no number in it")
        draft = terms.with_suffix(_DRAFT)
        with _created(draft, fresh=False) as file:
            write_whole(file, b"%d\n" % (int(last) + 1))
            os.fsync(file)
        draft.replace(terms)
        sync_folder(self._folder)
        return int(last) + 1

    def _replace(self, path: Path, name: str, draft: Path, version: Version) -> Version:
        self._check_version(path, name, version)
        draft.replace(path)
        return version

    def _remove(self, path: Path, name: str, version: Version) -> Version:
        self._check_version(path, name, version)
        path.unlink()
        return version

    def _check_version(self, path: Path, name: str, version: Version) -> None:
        found = self._read(path, name)
        if found is None or found[1].version != version:
            raise stale_version(name)

    def _read(self, path: Path, name: str | None) -> tuple[Document, _Mark] | None:
        """The document in a file; None if there is no file. BadDocument if it is another's, or none."""
        try:
            with translated(f"read {path}"):
                content = path.read_bytes()
        except StoreBroken as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        body, _, rest = content.partition(b"\n")
        try:
            mark = msgspec.json.decode(rest, type=_Mark)
        except msgspec.DecodeError:
            raise bad_document(name or path.name, "its second line is not its name and version") from None
        if name is not None and mark.name != name:
            raise bad_document(name, f"its file {path.name} says that it is called {mark.name!r:.80}")
        return decode(body, mark.name), mark

    def _list(self, prefix: str, fields: Sequence[str]) -> Sequence[Listed]:
        found = []
        for path in self._folder.glob(f"{glob_escape(quote(prefix, safe='')[:_SHOWN])}*{_SUFFIX}"):
            # What is no document, or is one no more, is left out.
            with suppress(BadDocument):
                seen = self._read(path, None)
                if seen is not None and seen[1].name.startswith(prefix):
                    found.append(Listed(seen[1].name, seen[1].version, pick(seen[0], fields)))
        return found

    def _sweep(self) -> None:
        """Take away what killed processes have left: nobody takes an hour to write a file."""
        for draft in self._folder.glob(f".*{_DRAFT}"):
            with suppress(FileNotFoundError):
                if self._clock.wall() - draft.stat().st_mtime * 1_000 > _LEFTOVER:
                    draft.unlink()


@contextmanager
def _created(path: Path, *, fresh: bool = True) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_EXCL if fresh else os.O_TRUNC)
    file = os.open(path, flags, 0o600)
    try:
        yield file
    finally:
        os.close(file)
