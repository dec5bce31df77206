"""Processes that take steps on one database at once: each gets its turn."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from ganger.databases.mongo.documents import CODEC
from ganger.databases.mongo.draft import Doc
from ganger.databases.mongo.session import Session
from ganger.databases.mongo.writer import Writer
from ganger.runtime.entropy import SystemEntropy
from tests.unit.databases.mongo.test_journal import NOTES, Note, forget

pytestmark = pytest.mark.slow
READS = 300
DEADLINE = 60.0


def test_a_long_step_gets_in_beside_one_who_takes_short_ones_without_a_pause(mongo_url: Callable[[], str]) -> None:
    async def hurry(session: Session) -> None:
        session.draft.put(NOTES, Note(1, "short", str(session.head.step)))

    async def dawdle(session: Session) -> None:
        for key in range(READS):
            await session.draft.get(NOTES, 1_000 + key)
        session.draft.put(NOTES, Note(2, "long"))

    async def story(hasty: Writer, slow: Writer) -> None:
        hurrying = asyncio.create_task(_repeat(hasty, hurry))
        await hasty.run(hurry, "a first step")
        async with asyncio.timeout(DEADLINE):
            await slow.run(dawdle, "a long step")
        hurrying.cancel()

    asyncio.run(_run(mongo_url(), story))


def test_what_a_server_that_died_has_forgotten_is_not_decided_upon(mongo_url: Callable[[], str]) -> None:
    seen: list[str] = []

    async def look(session: Session) -> Note:
        note = await session.draft.get(NOTES, 1) or Note(1, "")
        seen.append(note.text)
        return note

    async def count(session: Session) -> None:
        session.draft.put(NOTES, Note(1, (await look(session)).text + "x"))

    async def story(writer: Writer, other: Writer) -> None:
        notes = other.journal._database["notes"]
        await writer.run(count, "a first step")
        before = await notes.find_one({"_id": 1})
        assert before is not None
        await writer.run(count, "a second step")
        for work in (look, count):
            await forget(notes.database, 2, before)
            await other.run(work, "a step behind one that was forgotten")
        assert seen == ["", "x", "x", "xx", "x", "xx"], "each looked anew when the second was there again"

    asyncio.run(_run(mongo_url(), story))


async def _repeat(writer: Writer, work: Callable[[Session], Any]) -> None:
    while True:
        await writer.run(work, "a short step")


async def _run(url: str, story: Callable[[Writer, Writer], Any]) -> None:
    client: AsyncMongoClient[Doc] = AsyncMongoClient(url)
    database = client.get_default_database().with_options(codec_options=CODEC)
    writers = [Writer(database, SystemEntropy(), lambda step, topics: None) for _ in range(2)]
    try:
        await writers[0].journal.begin()
        await story(*writers)
    finally:
        for writer in writers:
            await writer.close()
        await client.close()
