"""The conformance suite of `ganger.coordination.backend`: each check takes a fresh stand; all `CHECKS` must pass."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ganger.coordination.backend import DEEPEST, LARGEST, LONGEST_NAME, Backend, Document, Version
from ganger.core.clock import Clock
from ganger.core.errors import BadInput, BadName, GangerError, PayloadTooLarge, StaleVersion

PATIENCE: Final = 60.0
CLOCKS_APART: Final = 60_000
"""Milliseconds by which the clock of a store on the same machine may be off, or late."""
LOCK: Final = {"holder": "2c717297-6375-4c14-afd2-3d246fdc5d54", "expire": 1515527529288}
DOCUMENTS: Final[tuple[Document, ...]] = (
    {},
    LOCK,
    {"nodes": [{"token": "07121045-3df3-4755-be40-9a90e47bda6f", "workers": 3}, {"token": "b", "workers": 0}]},
    {**LOCK, "task": "ZnNk" * 1_000, "state": "outstanding"},
    {"a": None, "b": True, "c": False, "d": 0, "e": -1, "f": (1 << 63) - 1, "g": -(1 << 63), "h": 1.5, "i": -2.5e-7},
    {
        "text": "line\nbreak \"quoted\" 'single' \\ back $dollar %s {} é ✓ 🦫 \t \u2028",
        "empty": "",
        "list": [],
        "map": {},
    },
    {"deep": {"er": [{"and": {"deeper": [[1, [2, [3]]]]}}]}},
)
NAMES: Final = (
    "a", "lock/a", "lock/a/b", "Ä ö/ü", "..", ".", "../../up", "/", "a%2Fb", "a b", "~", "*", "?x=1&y#z", "🦫" * 100,
    "n" * LONGEST_NAME, "'; DROP TABLE document; --", "$where", "{}", "\\", "CON", "a\"b",
)  # fmt: skip
NO_NAMES: Final = ("", "n" * (LONGEST_NAME + 1), "é" * LONGEST_NAME, "a\nb", "a\0b", "\ud800", "a\tb")
NO_DOCUMENTS: Final[tuple[Any, ...]] = (
    {"version": 1}, {"": 1}, {"_id": 1}, {"$set": 1}, {"a.b": 1}, {"1a": 1}, {"a" * 65: 1}, {"a": {"b.c": 1}},
    {"a": float("nan")}, {"a": float("inf")}, {"a": 1 << 63}, {"a": "\0"}, {"a": "\ud800"}, {"a": b"bytes"},
    {"a": object()}, [], "text", 1, None,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DocumentStand:
    """What the checks are given: how to open the place, as often as they like, each time as if from another process.

    `clock` is what the place goes by where it has no clock of its own.
    """

    open: Callable[[], Awaitable[Backend]]
    clock: Clock


Check = Callable[[DocumentStand], Awaitable[None]]


@contextmanager
def expect(*kinds: type[GangerError]) -> Iterator[None]:
    try:
        yield
    except kinds:
        return
    raise AssertionError(f"{[kind.__name__ for kind in kinds]} was not raised")


async def what_is_not_there_is_read_as_nothing(stand: DocumentStand) -> None:
    backend = await stand.open()
    reading = await backend.read("lock/none")
    assert (reading.document, reading.version) == (None, None)
    assert abs(reading.at - stand.clock.wall()) < CLOCKS_APART


async def a_document_comes_back_as_it_was_written(stand: DocumentStand) -> None:
    backend, other = await stand.open(), await stand.open()
    for number, document in enumerate(DOCUMENTS):
        written = await backend.write(f"some/{number}", document, None)
        for reader in (backend, other):
            reading = await reader.read(f"some/{number}")
            assert reading.document == document
            assert reading.version == written.version
        assert abs(written.at - stand.clock.wall()) < CLOCKS_APART


async def every_name_is_a_name_of_its_own(stand: DocumentStand) -> None:
    backend = await stand.open()
    for number, name in enumerate(NAMES):
        await backend.write(name, {"number": number}, None)
    for number, name in enumerate(NAMES):
        assert (await backend.read(name)).document == {"number": number}, name


async def a_document_is_made_once(stand: DocumentStand) -> None:
    backend, other = await stand.open(), await stand.open()
    written = await backend.write("lock/a", LOCK, None)
    with expect(StaleVersion):
        await other.write("lock/a", {"holder": "thief", "expire": 1}, None)
    assert await _look(other) == (LOCK, written.version)


async def a_write_needs_the_version_that_is_there(stand: DocumentStand) -> None:
    backend, other = await stand.open(), await stand.open()
    first = await backend.write("lock/a", LOCK, None)
    second = await other.write("lock/a", {"holder": "b", "expire": 1}, first.version)
    assert second.version > first.version
    for stale in (first.version, second.version._replace(number=second.version.number + 1), Version(1 << 40, 1)):
        with expect(StaleVersion):
            await backend.write("lock/a", {"holder": "thief", "expire": 1}, stale)
        with expect(StaleVersion):
            await backend.delete("lock/a", stale)
    assert await _look(backend) == ({"holder": "b", "expire": 1}, second.version)


async def what_is_not_there_has_no_version(stand: DocumentStand) -> None:
    backend = await stand.open()
    written = await backend.write("lock/b", LOCK, None)
    with expect(StaleVersion):
        await backend.write("lock/a", LOCK, written.version)
    with expect(StaleVersion):
        await backend.delete("lock/a", written.version)
    assert (await backend.read("lock/a")).document is None


async def versions_grow_with_each_write(stand: DocumentStand) -> None:
    backend = await stand.open()
    versions = [(await backend.write("lock/a", LOCK, None)).version]
    for number in range(12):
        written = await backend.write("lock/a", {"number": number}, versions[-1])
        versions.append(written.version)
    assert versions == sorted(set(versions))


async def a_version_is_never_given_twice(stand: DocumentStand) -> None:
    backend, seen = await stand.open(), set[Version]()
    for _ in range(4):
        written = await backend.write("lock/a", LOCK, None)
        seen.add(written.version)
        again = await backend.write("lock/a", {"holder": "b", "expire": 1}, written.version)
        seen.add(again.version)
        await backend.delete("lock/a", again.version)
        for version in seen:
            with expect(StaleVersion):
                await backend.write("lock/a", LOCK, version)
        backend = await stand.open()
    assert len(seen) == 8


async def what_is_deleted_is_gone(stand: DocumentStand) -> None:
    backend, other = await stand.open(), await stand.open()
    written = await backend.write("lock/a", LOCK, None)
    await other.delete("lock/a", written.version)
    assert (await backend.read("lock/a")).document is None
    with expect(StaleVersion):
        await backend.delete("lock/a", written.version)
    await _until(lambda: _is_listed(backend, "lock/", []))


async def of_many_writers_one_wins(stand: DocumentStand) -> None:
    backends = [await stand.open() for _ in range(3)]
    version: Version | None = None
    for turn in range(4):
        tried = [_try(backends[n % 3], {"turn": turn, "writer": n}, version) for n in range(9)]
        won = [(writer, given) for writer, given in enumerate(await asyncio.gather(*tried)) if given is not None]
        assert len(won) == 1
        version = won[0][1]
        assert await _look(backends[0]) == ({"turn": turn, "writer": won[0][0]}, version)


async def no_increment_is_lost(stand: DocumentStand) -> None:
    backends = [await stand.open() for _ in range(3)]
    await backends[0].write("lock/a", {"count": 0}, None)
    await asyncio.gather(*(_count_up(backend, 7) for backend in backends))
    assert (await _look(backends[0]))[0] == {"count": 21}


async def a_list_has_the_fields_that_were_asked_for(stand: DocumentStand) -> None:
    backend, other = await stand.open(), await stand.open()
    versions = {}
    for name in ("partition/b", "partition/a", "partition/ä/c", "partitions", "partition", "lock/partition/a"):
        document = {**LOCK, "task": "dGFzaw==", "state": "outstanding", "name": name}
        versions[name] = (await backend.write(name, document, None)).version
    wanted = ["partition/a", "partition/b", "partition/ä/c"]
    await _until(lambda: _is_listed(other, "partition/", wanted))
    listing = await other.list("partition/", ["expire", "name", "nothing"])
    assert [entry.fields for entry in listing.entries] == [{"expire": LOCK["expire"], "name": name} for name in wanted]
    assert [entry.version for entry in listing.entries] == [versions[name] for name in wanted]
    assert abs(listing.at - stand.clock.wall()) < CLOCKS_APART
    assert [entry.fields for entry in (await other.list("partition/", [])).entries] == [{}, {}, {}]
    assert (await other.list("nothing/", ["expire"])).entries == []


async def a_list_of_very_many_is_whole(stand: DocumentStand) -> None:
    backend = await stand.open()
    names = [f"partition/{number:03}" for number in range(120)]
    for start in range(0, len(names), 20):
        await asyncio.gather(*(backend.write(name, LOCK, None) for name in names[start : start + 20]))
    await _until(lambda: _is_listed(backend, "partition/", names))


async def bad_names_are_refused(stand: DocumentStand) -> None:
    backend = await stand.open()
    for name in NO_NAMES:
        for call in (backend.read(name), backend.write(name, LOCK, None), backend.delete(name, Version(1, 1))):
            with expect(BadName):
                await call


async def bad_documents_are_refused_and_change_nothing(stand: DocumentStand) -> None:
    backend = await stand.open()
    written = await backend.write("lock/a", LOCK, None)
    deep: Any = 1
    for _ in range(DEEPEST + 1):
        deep = [deep]
    for document in (*NO_DOCUMENTS, {"deep": deep}):
        with expect(BadInput):
            await backend.write("lock/a", document, written.version)
    with expect(PayloadTooLarge):
        await backend.write("lock/a", {"text": "x" * LARGEST}, written.version)
    with expect(BadInput):
        await backend.list("lock/", ["a'b"])
    assert await _look(backend) == (LOCK, written.version)


async def a_large_document_is_kept(stand: DocumentStand) -> None:
    backend = await stand.open()
    document = {"text": "é" * ((LARGEST - 20) // 2)}
    await backend.write("lock/a", document, None)
    assert (await backend.read("lock/a")).document == document


async def what_was_written_is_there_for_who_opens_it_anew(stand: DocumentStand) -> None:
    backend = await stand.open()
    if not backend.capabilities.durable:
        return
    written = await backend.write("lock/a", LOCK, None)
    await backend.close()
    await backend.close()
    again = await stand.open()
    assert await _look(again) == (LOCK, written.version)
    assert (await again.write("lock/b", LOCK, None)).version != written.version


async def a_watcher_is_told_of_what_others_do(stand: DocumentStand) -> None:
    backend, other = await stand.open(), await stand.open()
    if not backend.capabilities.notifies:
        return
    told, elsewhere = asyncio.Event(), asyncio.Event()
    stop, stop_elsewhere = backend.watch(["lock/a"], told.set), backend.watch(["lock/elsewhere"], elsewhere.set)
    version = (await other.write("lock/a", LOCK, None)).version
    await _hear(told)
    version = (await other.write("lock/a", {"holder": "b", "expire": 0}, version)).version
    await _hear(told)
    await other.delete("lock/a", version)
    await _hear(told)
    stop()
    stop()
    stop_elsewhere()


async def a_write_that_was_cancelled_is_done_or_not(stand: DocumentStand) -> None:
    backend = await stand.open()
    version = (await backend.write("lock/a", {"count": 0}, None)).version
    for turn in range(1, 8):
        writing = asyncio.ensure_future(backend.write("lock/a", {"count": turn}, version))
        for _ in range(turn):
            await asyncio.sleep(0)
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        version = (await _claim(backend, version, turn)).version


async def _claim(backend: Backend, version: Version, turn: int) -> Any:
    """Write behind a write of which nobody knows, and see that no more than the two were ever there."""
    while True:
        found = await backend.read("lock/a")
        assert found.version is not None
        assert (found.version == version) == (found.document != {"count": turn})
        with contextlib.suppress(StaleVersion):
            return await backend.write("lock/a", {"count": -turn}, found.version)


async def _look(backend: Backend) -> tuple[Document | None, Version | None]:
    reading = await backend.read("lock/a")
    return reading.document, reading.version


async def _try(backend: Backend, document: Document, version: Version | None) -> Version | None:
    try:
        return (await backend.write("lock/a", document, version)).version
    except StaleVersion:
        return None


async def _count_up(backend: Backend, times: int) -> None:
    while times:
        reading = await backend.read("lock/a")
        assert reading.document is not None
        if await _try(backend, {"count": reading.document["count"] + 1}, reading.version) is not None:
            times -= 1


async def _is_listed(backend: Backend, prefix: str, names: list[str]) -> bool:
    return [entry.name for entry in (await backend.list(prefix, ["expire"])).entries] == names


async def _until(asked: Callable[[], Awaitable[bool]]) -> None:
    """A list may lag."""
    async with asyncio.timeout(PATIENCE):
        while not await asked():  # noqa: ASYNC110 - nobody tells of a refresh
            await asyncio.sleep(0.05)


async def _hear(told: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    told.clear()


CHECKS: Final[tuple[Check, ...]] = (
    what_is_not_there_is_read_as_nothing,
    a_document_comes_back_as_it_was_written,
    every_name_is_a_name_of_its_own,
    a_document_is_made_once,
    a_write_needs_the_version_that_is_there,
    what_is_not_there_has_no_version,
    versions_grow_with_each_write,
    a_version_is_never_given_twice,
    what_is_deleted_is_gone,
    of_many_writers_one_wins,
    no_increment_is_lost,
    a_list_has_the_fields_that_were_asked_for,
    a_list_of_very_many_is_whole,
    bad_names_are_refused,
    bad_documents_are_refused_and_change_nothing,
    a_large_document_is_kept,
    what_was_written_is_there_for_who_opens_it_anew,
    a_watcher_is_told_of_what_others_do,
    a_write_that_was_cancelled_is_done_or_not,
)
