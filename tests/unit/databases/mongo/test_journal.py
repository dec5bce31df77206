"""A step of many documents is there as a whole, whoever dies on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError

from ganger.databases.mongo.documents import CODEC
from ganger.databases.mongo.draft import Change, Choice, Doc, Draft, Table
from ganger.databases.mongo.journal import LARGEST_PART, Journal, Record

pytestmark = pytest.mark.slow
Story = Callable[[Any, Journal], Awaitable[None]]


class Note(NamedTuple):
    """A row of these tests."""

    key: int
    text: str
    place: str = ""


def _to(note: Note) -> Doc:
    return {"_id": note.key, "text": note.text, "in.place": note.place}


def _from(document: Doc) -> Note:
    return Note(document["_id"], document["text"], document["in"]["place"])


NOTES: Final[Table[Note]] = Table("notes", _from, _to, lambda note: note.key)


@pytest.fixture
def tell(mongo_url: Callable[[], str]) -> Callable[[Story], None]:
    return lambda story: asyncio.run(_run(mongo_url(), story))


async def _run(url: str, story: Story) -> None:
    client: AsyncMongoClient[Doc] = AsyncMongoClient(url)
    try:
        database = client.get_default_database().with_options(codec_options=CODEC)
        journal = Journal(database)
        await journal.begin()
        await story(database, journal)
    finally:
        await client.close()


async def draw_up(database: Any, journal: Journal, *notes: Note | int, seal: str = "t") -> Record:
    """A step that puts these notes, and drops those that are numbers."""
    head, draft = await journal.head(), Draft(database, {})
    await draft.load(NOTES, [note if isinstance(note, int) else note.key for note in notes])
    for note in notes:
        if isinstance(note, int):
            draft.drop(NOTES, note)
        else:
            draft.put(NOTES, note)
    assert await journal.is_certain(head)
    return Record(head.step + 1, seal, draft.changes(), head.sequences, [], head.server)


async def take(database: Any, journal: Journal, *notes: Note | int) -> None:
    record = await draw_up(database, journal, *notes)
    await journal.commit(record)
    await journal.apply(record)


async def read(database: Any) -> list[Note]:
    return [_from(document) for document in await database.notes.find().sort("_id", 1).to_list()]


def test_a_step_whose_process_died_is_made_by_the_next(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "old"), Note(2, "goes"))
        await journal.commit(await draw_up(database, journal, Note(1, "new"), 2, Note(3, "comes")))
        assert await read(database) == [Note(1, "old"), Note(2, "goes")]
        await journal.head()
        assert await read(database) == [Note(1, "new"), Note(3, "comes")]

    tell(story)


def test_a_step_that_was_half_made_is_made_whole(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "old"))
        record = await draw_up(database, journal, Note(1, "new"), Note(2, "comes"))
        await journal.commit(record)
        await database.notes.insert_one({"_id": 2, "text": "comes", "in": {"place": ""}, "v": record.step})
        await journal.head()
        assert await read(database) == [Note(1, "new"), Note(2, "comes")]

    tell(story)


def test_of_two_who_decide_upon_the_same_state_one_is_refused(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        one = await draw_up(database, journal, Note(1, "mine"), seal="one")
        two = await draw_up(database, journal, Note(1, "yours"), seal="two")
        await journal.commit(one)
        with pytest.raises(DuplicateKeyError):
            await journal.commit(two)
        assert (await journal.is_mine(one), await journal.is_mine(two)) == (True, False)

    tell(story)


def test_what_comes_late_changes_nothing(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "first"))
        late = await draw_up(database, journal, Note(1, "second"), Note(2, "comes"))
        await journal.commit(late)
        await journal.head()
        await take(database, journal, Note(1, "third"), 2)
        await journal.apply(late)
        assert await read(database) == [Note(1, "third")], "neither is the old text back, nor what was removed"

    tell(story)


async def forget(database: Any, step: int, *documents: Doc) -> None:
    """Let it be as if the server had died behind a step, with a mark that came when it was there again."""
    for document in documents:
        await database.notes.replace_one({"_id": document["_id"]}, document)
    await database.ganger_steps.update_one({"_id": step}, {"$set": {"applied": "a server that died"}})


def test_a_mark_that_was_made_for_a_server_that_died_is_not_believed(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "first"))
        before = await database.notes.find_one({"_id": 1})
        await take(database, journal, Note(1, "second"))
        await forget(database, 2, before)
        assert not await journal.is_certain(await journal.head())
        assert await read(database) == [Note(1, "second")]
        assert await journal.is_certain(await journal.head())

    tell(story)


def test_whoever_makes_a_step_for_another_makes_the_forgotten_one_before_it_too(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "first"))
        before = await database.notes.find_one({"_id": 1})
        await take(database, journal, Note(1, "second"))
        record = await draw_up(database, journal, Note(2, "comes"))
        await forget(database, 2, before)
        await journal.commit(record)
        await journal.head()
        assert await read(database) == [Note(1, "second"), Note(2, "comes")]

    tell(story)


def test_a_change_is_not_made_before_the_one_it_was_built_upon(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "first"))
        before = await database.notes.find_one({"_id": 1})
        await take(database, journal, Note(1, "first", "second"))
        record = await draw_up(database, journal, Note(1, "third", "second"))
        await forget(database, 2, before)
        await journal.commit(record)
        await journal.apply(record._replace(server="a server that died"))
        assert await read(database) == [Note(1, "first")]
        await journal.recover()
        assert await read(database) == [Note(1, "third", "second")]

    tell(story)


def test_where_nothing_was_begun_there_is_nothing_to_recover(mongo_url: Callable[[], str]) -> None:
    async def look() -> None:
        async with AsyncMongoClient[Doc](mongo_url()) as client:
            database = client.get_default_database()
            await Journal(database).recover()
            assert await database.ganger_steps.count_documents({}) == 0

    asyncio.run(look())


def test_whoever_repairs_late_brings_nothing_back_that_was_removed(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "comes"))
        await take(database, journal, Note(2, "comes"))
        await take(database, journal, 1, 2)
        await journal.repair(2)
        assert await read(database) == []

    tell(story)


def test_a_step_that_no_document_can_hold_lies_in_parts(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        large = [Note(key, "x" * (LARGEST_PART // 4)) for key in range(1, 9)]
        await journal.commit(await draw_up(database, journal, *large))
        await journal.head()
        assert len(await read(database)) == len(large)

    tell(story)


def test_a_draft_sees_what_it_wrote_and_takes_it_back(tell: Callable[[Story], None]) -> None:
    async def story(database: Any, journal: Journal) -> None:
        await take(database, journal, Note(1, "a"), Note(2, "b"))
        draft = Draft(database, {})
        wanted: Choice[Note] = Choice(NOTES, {"text": "b"}, lambda note: note.text == "b", (("_id", 1),), tuple)
        await draft.load(NOTES, [1])
        mark = draft.mark()
        draft.put(NOTES, Note(1, "b"))
        draft.put(NOTES, Note(3, "b"))
        assert [note.key for note in await draft.select(wanted)] == [1, 2, 3]
        assert (await draft.count(wanted), len(await draft.select(wanted, 2))) == (3, 2)
        assert await draft.distinct(wanted, "text", lambda note: note.text) == {"b"}
        draft.take_back(mark)
        assert [note.key for note in await draft.select(wanted)] == [2]
        assert draft.changes() == []

    tell(story)


def test_a_row_that_is_put_as_it_was_is_no_change() -> None:
    draft = Draft(None, {})  # type: ignore[arg-type]
    draft.learn(NOTES, {"_id": 1, "text": "a", "in": {"place": ""}, "v": 7})
    draft.put(NOTES, Note(1, "a"))
    assert draft.changes() == []
    draft.put(NOTES, Note(1, "b"))
    assert draft.changes() == [Change("notes", "update", 1, {"text": "b"}, {}, "v", False, 7)]
