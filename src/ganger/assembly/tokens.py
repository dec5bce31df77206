"""The tokens of a store: a file beside it that has their hashes, never themselves.

What can go wrong, and why this is right: the file is replaced whole, under a lock, and is on disk before a token is
told to anybody, so a crash leaves the tokens of before or of after. The first start writes the administrator's token to
a file of its own before its hash is kept: a crash in between leaves a file that opens nothing, and the next start
writes another. All files can be read by their owner alone. A token is 32 random bytes, so its hash needs no salt and
cannot be guessed; it is found by its hash, and compared in constant time.
"""

import base64
import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from ganger.assembly.key import read_key
from ganger.assembly.location import Location
from ganger.core import names
from ganger.core.clock import Clock, Entropy, Wall
from ganger.core.errors import BadNumber, Conflict, Damage, FormatTooNew, NotAuthenticated, NotFound
from ganger.core.token import read_token
from ganger.faces.http.grants import Grant, check_scopes
from ganger.runtime.disk import opened, sync_folder, translated, write_whole

PREFIX: Final = "ganger_"
ADMIN: Final = "admin"
_BYTES: Final = 32
_SHOWN: Final = 8
_VERSION: Final = 1
_LARGEST: Final = 16 << 20
_SLOWEST: Final = 0.01
_FASTEST: Final = 1e6


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as the file has it."""

    name: str
    hash: str
    scopes: list[str]
    created: int
    expires: int | None = None
    rate: float | None = None

    @property
    def id(self) -> str:
        return self.hash[:_SHOWN]

    def grant(self) -> Grant:
        expires = None if self.expires is None else Wall(self.expires)
        return Grant(self.id, self.name, frozenset(self.scopes), expires, rate=self.rate)


class _File(msgspec.Struct, frozen=True, omit_defaults=True):
    tokens: list[Kept] = []
    version: int = _VERSION


class Made(NamedTuple):
    """A new token. This is the only time that it is known."""

    token: str
    kept: Kept


class TokenFile:
    """The tokens of one store. Safe for any number of processes: what another has changed holds from the next question
    on, which costs a look at the file's name each time.
    """

    def __init__(self, path: Path, clock: Clock, entropy: Entropy) -> None:
        self.path = path
        self._name = str(path)
        self._clock = clock
        self._entropy = entropy
        self._seen: tuple[int, int, int] | None = None
        self._by_hash: dict[str, Kept] = {}
        self._grants: dict[str, Grant] = {}
        self._held: frozenset[Grant] = frozenset()
        self._by_id: dict[str, Grant] = {}
        self._digests: dict[str, str] = {}
        self.refresh()

    @property
    def admin_path(self) -> Path:
        """Where the first start leaves the administrator's token."""
        return self.path.with_name(self.path.name.removesuffix("-tokens") + "-admin-token")

    def refresh(self) -> bool:
        """Read the file if it is another than before; whether it was."""
        with translated(f"read {self.path}"):
            stamp = _stamp(self._name)
            if stamp == self._seen:
                return False
            self._by_hash = {} if stamp is None else {kept.hash: kept for kept in _read(self.path)}
        self._grants = {kept.hash: kept.grant() for kept in self._by_hash.values()}
        self._held = frozenset(self._grants.values())
        self._by_id = {grant.id: grant for grant in self._held}
        self._digests.clear()
        self._seen = stamp
        return True

    def find(self, token: str) -> Grant | None:
        """The grant of a token that is known and has not expired. Raises StoreError, Damage."""
        self.refresh()
        digest = self._digests.get(token) or _hash(token)
        kept = self._by_hash.get(digest)
        if kept is None or not hmac.compare_digest(kept.hash, digest) or self._is_over(kept):
            return None
        # Only good ones are remembered, so there are no more of them than there are tokens.
        self._digests[token] = digest
        return self._grants[digest]

    def holds(self, grant: Grant) -> bool:
        """As of the last `refresh`, since thousands may be asked for at once."""
        return grant in self._held and not self._is_over(grant)

    def find_id(self, number: str) -> Grant | None:
        """The grant of the token with this id, if it has not expired, as of the last `refresh`."""
        grant = self._by_id.get(number)
        return None if grant is None or self._is_over(grant) else grant

    def _is_over(self, kept: Kept | Grant) -> bool:
        return kept.expires is not None and kept.expires <= self._clock.wall()

    def all(self) -> list[Kept]:
        self.refresh()
        return list(self._by_hash.values())

    def add(self, name: str, scopes: Iterable[str], lifetime: int | None = None, rate: float | None = None) -> Made:
        """A new token; Conflict if one has the name. `lifetime` in milliseconds, None: until it is removed.

        `rate` is how many requests it may make in a second; None: as many as the server allows each, 0: any number.
        """
        token, kept = self._make(name, scopes, lifetime)
        kept = msgspec.structs.replace(kept, rate=_check_rate(rate))
        with self._locked() as tokens:
            if any(known.name == name for known in tokens):
                raise Conflict(f"a token is called {name!r} already: remove it, or take another name", name=name)
            self._write([*tokens, kept])
        return Made(token, kept)

    def remove(self, which: str) -> Kept:
        """Remove the token of this name or id; NotFound if there is none."""
        with self._locked() as tokens:
            found = next((kept for kept in tokens if which in (kept.name, kept.id)), None)
            if found is None:
                raise NotFound(f"no token is called {which!r:.80}; see `ganger token ls`", name=which[:200])
            self._write([kept for kept in tokens if kept is not found])
        return found

    def ensure_admin(self) -> bool:
        """Make the administrator's token if there is no token at all; whether it was made."""
        if self._is_there():
            return False
        with self._locked() as tokens:
            if self._is_there():
                return False
            token, kept = self._make(ADMIN, [ADMIN], None)
            _replace(self.admin_path, f"{token}\n".encode())
            self._write([*tokens, kept])
        return True

    def _is_there(self) -> bool:
        return self._seen is not None

    def _make(self, name: str, scopes: Iterable[str], lifetime: int | None) -> Made:
        token = PREFIX + base64.urlsafe_b64encode(self._entropy.token(_BYTES)).decode().rstrip("=")
        now = self._clock.wall()
        expires = None if lifetime is None else now + lifetime
        return Made(token, Kept(names.check("token", name), _hash(token), sorted(check_scopes(scopes)), now, expires))

    @contextmanager
    def _locked(self) -> Iterator[list[Kept]]:
        """The tokens, while nobody else changes them."""
        with translated(f"change {self.path}"), _lock(self.path.with_name(f"{self.path.name}.lock")):
            self.refresh()
            yield list(self._by_hash.values())

    def _write(self, tokens: list[Kept]) -> None:
        _replace(self.path, msgspec.json.encode(_File(tokens)))
        self.refresh()


class Keepers:
    """Knows the tokens of the file, and those that nodes give to their attempts."""

    def __init__(self, tokens: TokenFile, location: Location | None) -> None:
        self._tokens = tokens
        self._location = location

    def find(self, token: str) -> Grant | None:
        """An attempt's token says who speaks; whether its lease still holds, the store says.

        It ends with the token by which its node works, and fills no queue that this one may not fill.
        """
        if token.startswith(PREFIX) or self._location is None or not self._location.key.exists():
            return self._tokens.find(token)
        try:
            attempt = read_token(read_key(self._location), token)
        except NotAuthenticated:
            return None
        task = attempt.lease.task
        if attempt.giver:
            self._tokens.refresh()
            if (giver := self._tokens.find_id(attempt.giver)) is None:
                return None
            attempt = attempt._replace(queues=giver.fills())
        return Grant(f"task-{task}", f"task {task}", frozenset(), attempt=attempt)

    def holds(self, grant: Grant) -> bool:
        if grant.attempt is None:
            return self._tokens.holds(grant)
        return not grant.attempt.giver or self._tokens.find_id(grant.attempt.giver) is not None


def _check_rate(rate: float | None) -> float | None:
    if rate is not None and not (rate == 0 or _SLOWEST <= rate <= _FASTEST):
        raise BadNumber(f"rate is {rate:g} requests a second; give {_SLOWEST:g} to {_FASTEST:g}, or 0", field="rate")
    return rate


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when the file is replaced; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(path: Path) -> list[Kept]:
    with opened(path, os.O_RDONLY) as fd:
        content = os.read(fd, _LARGEST)
    try:
        version = msgspec.json.decode(content, type=dict[str, object]).get("version", _VERSION)
        if version != _VERSION:
            raise FormatTooNew(f"{path} has the format {version}, which a newer version wrote", path=str(path))
        return msgspec.json.decode(content, type=_File).tokens
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Damage(f"{path} is no file of tokens any more: {error}", path=str(path)) from None


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


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
