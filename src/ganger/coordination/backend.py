"""THE CONTRACT for whatever keeps the documents through which machines agree.

A document is a small JSON object with a name and a version. Machines never talk to each other: they read a document,
decide, and write it back on the condition that its version is still the one that they read. Of any number of writers
that read the same version one wins, and the others are told so. All else (locks, leaders, members, partitions) is
written above this, once, and relies on nothing but these terms:

- **A version is never given twice** to a name, whatever is deleted and made again in between: so whoever was stopped
  for an hour can not overwrite what it has never seen. While a document exists its version grows with each write; a
  higher `term` means that it was made anew, or that another server keeps it now.
- **Only an answered write proves anything.** A read may show a document as it was a while ago, and a list may lag
  behind by `Capabilities.lag`: what is read is a hint that a conditional write confirms or refutes.
- **A write without an answer is unknown.** It is reported as StoreUnavailable (or StoreBroken, if the disk failed),
  and may be stored now, later, or never. Whoever needs to know reads the document and looks for its own mark in it.
- **What was answered is on disk**, and stays there when processes are killed or machines lose their power (the memory
  backend excepted). It stays as long as the store keeps what it has acknowledged.
- **`at` is the wall clock of the store** at some moment between the call and its answer: the server's where there is
  one that tells (`Capabilities.server_clock`), else the machine's own. It may jump like any wall clock.
- **A watcher is told** after a document that it named may have changed, also without cause, and perhaps never: a
  wake-up can be lost with a connection. It saves waiting, and nothing may depend on it. Where `Capabilities.notifies`
  is false nobody is told of what other processes do.
- **Cancelling** a write leaves it unknown, as if its answer was lost.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ganger.core import names
from ganger.core.clock import Wall
from ganger.core.errors import BadDocument, BadInput, BadName, PayloadTooLarge, StaleVersion

LARGEST: Final = 1 << 20
"""Bytes of a document as JSON."""
LONGEST_NAME: Final = 400
"""Bytes of a name as UTF-8: every store has room for so many."""
DEEPEST: Final = 16
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_RESERVED: Final = "version"
_INTEGERS: Final = 1 << 63

Document = Mapping[str, Any]
"""A JSON object, as the store has it: whoever reads one written by others checks it."""


class Version(NamedTuple):
    """Which writing of a document: later ones are greater."""

    term: int
    number: int

    def __str__(self) -> str:
        return f"{self.term}.{self.number}"


class Reading(NamedTuple):
    """A document as it was at some moment, and what the store's clock said. Both are None if there was none."""

    document: Document | None
    version: Version | None
    at: Wall


class Written(NamedTuple):
    """The version that a write has given to its document."""

    version: Version
    at: Wall


class Listed(NamedTuple):
    """One document of a list, with the fields that were asked for, as far as it has them."""

    name: str
    version: Version
    fields: Document


class Listing(NamedTuple):
    """Documents in the order of their names."""

    entries: Sequence[Listed]
    at: Wall


class Capabilities(NamedTuple):
    """Where backends differ. `look` is how often a waiter may look, in milliseconds; 0 leaves that to the waiter."""

    durable: bool = True
    notifies: bool = False
    server_clock: bool = False
    lag: int = 0
    look: int = 0


class Backend(Protocol):
    """Versioned documents. Safe for any number of callers of one event loop; other processes open their own."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def read(self, name: str) -> Reading:
        """The document of this name.

        Raises StoreUnavailable if the store can not be reached, BadDocument if what lies there is no document.
        """
        ...

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        """Replace the document if this is its version; None makes it if there is none. Atomic; durable when answered.

        Raises StaleVersion if the version is another, and then nothing was or will be written; StoreUnavailable or
        StoreBroken if that is unknown; StoreFull, StoreReadOnly, BadName, BadInput, PayloadTooLarge if it was refused.
        Not idempotent: a write that is sent again after its answer was lost finds its own version, and is stale.
        """
        ...

    async def delete(self, name: str, version: Version) -> None:
        """Take the document away if this is its version. Atomic; durable when answered; raises as `write` does."""
        ...

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        """All documents whose names begin so, with these fields of each, in one request where the store can do that.

        No snapshot: each entry was so at some moment between the call and its answer, or up to `lag` before it. What
        is no document, and whatever a stranger put there, is left out. Raises StoreUnavailable.
        """
        ...

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called on the loop when one of these may have changed, until the returned function is called."""
        ...

    async def close(self) -> None:
        """Let go of everything. Idempotent."""
        ...


def check_name(name: str) -> str:
    """The name, if every store can keep a document under it. Raises BadName."""
    names.check_text("document", name, names.LONGEST * 2)
    size = len(name.encode())
    if not 0 < size <= LONGEST_NAME or not name.isprintable():
        raise BadName(
            f"a document's name has 1 to {LONGEST_NAME} bytes and no unprintable character, not {name!r:.80}", size=size
        )
    return name


def encode(document: Document) -> bytes:
    """The document as JSON, if every store can keep it as it is. Raises BadInput, PayloadTooLarge."""
    _check(document, 0)
    encoded = msgspec.json.encode(document)
    if len(encoded) > LARGEST:
        raise PayloadTooLarge(
            f"a document of {len(encoded)} bytes is over the limit of {LARGEST}: keep large data elsewhere",
            size=len(encoded),
            limit=LARGEST,
        )
    return encoded


def decode(body: bytes | str, name: str) -> Document:
    """The document that was stored as this JSON. Raises BadDocument if it is none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise bad_document(name, "it is no JSON object")
    return found


def bad_document(name: str, why: str) -> BadDocument:
    return BadDocument(f"the document {name!r} can not be used: {why}; mend it or take it away", name=name)


def stale_version(name: str) -> StaleVersion:
    return StaleVersion(f"the document {name!r} was changed meanwhile: read it again", name=name)


def check_fields(fields: Sequence[str]) -> Sequence[str]:
    for field in fields:
        _check_field(field, 0)
    return fields


def pick(document: Document, fields: Sequence[str]) -> Document:
    """These fields of a document, as far as it has them."""
    return {field: document[field] for field in fields if field in document}


def _check(value: object, depth: int) -> None:
    if depth > DEEPEST:
        raise BadInput(f"a document may be {DEEPEST} levels deep, not more")
    match value:
        case Mapping():
            for name, part in value.items():
                _check_field(name, depth)
                _check(part, depth + 1)
        case _ if depth == 0:
            raise BadInput(f"a document is a JSON object, not {type(value).__name__}")
        case list() | tuple():
            for part in value:
                _check(part, depth + 1)
        case _:
            _check_scalar(value)


def _check_field(name: object, depth: int) -> None:
    if not isinstance(name, str) or not _FIELD.fullmatch(name) or (depth == 0 and name == _RESERVED):
        raise BadInput(
            f"a field of a document is called with 1 to 64 letters, digits, - and _, the first a letter, and not "
            f"{_RESERVED!r}; not {name!r:.80}"
        )


def _check_scalar(value: object) -> None:
    match value:
        case str():
            names.check_text("text in a document", value, LARGEST)
        case None | bool():
            return
        case int() if -_INTEGERS <= value < _INTEGERS:
            return
        case float() if math.isfinite(value):
            return
        case _:
            raise BadInput(f"a document can not have {value!r:.80} in it: use text, 64-bit numbers, lists and objects")
