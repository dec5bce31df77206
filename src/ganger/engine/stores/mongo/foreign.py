"""What a document says of a task that a stranger ran, or made: what it printed, its exit code, its other attributes.

Of a task that our nodes ran the store has output and data of its own, and those count. Of a stranger's there is only
the document, so that is read: as the streams `stdout` and `stderr`, and as the data `exit` and `disbatch`. Programs of
Disbatch keep long output in GridFS, some of them with text in its chunks instead of bytes.
"""

from typing import Any, Final, NamedTuple

from ganger.core.task import EXIT, THEIRS
from ganger.databases.mongo import Doc, ObjectId, from_json, to_json
from ganger.engine.store import Datum
from ganger.engine.stores.mongo.codec import OURS
from ganger.engine.stores.mongo.dialect import LATER
from ganger.engine.stores.mongo.outputs import FILE_CHUNKS, FILES
from ganger.engine.stores.mongo.row import Row

_STREAMS: Final = ("stdout", "stderr")


class Printed(NamedTuple):
    """Some bytes of a stream, and how many it has in all."""

    body: bytes
    size: int


def list_streams(row: Row) -> set[str]:
    return {stream for stream in _STREAMS if getattr(row, stream) is not None}


def list_data(row: Row) -> dict[str, bytes]:
    """The values that the document itself has, by their keys."""
    data = {} if row.exit is None else {EXIT: str(row.exit).encode()}
    return data | ({THEIRS: to_json(row.theirs)} if row.theirs else {})


def read_theirs(datum: Datum) -> Doc | None:
    """The attributes that a value stands for; None if it is any other value, or says what is not theirs to say."""
    found = from_json(datum.value) if datum.key == THEIRS and datum.value is not None else None
    return None if found is None or any(_is_barred(name) for name in found) else found


def _is_barred(name: str) -> bool:
    return not name or name in OURS | LATER or "." in name or name.startswith("$")


async def read_printed(database: Any, row: Row, stream: str, start: int, most: int) -> Printed | None:
    """A part of what the task printed; None if the document says nothing of it."""
    said = getattr(row, stream) if stream in _STREAMS else None
    if isinstance(said, ObjectId):
        return await _read_file(database, said, start, most)
    if not isinstance(said, str):
        return None
    body = said.encode("utf-8", "replace")
    return Printed(body[start : start + most], len(body))


async def _read_file(database: Any, file: ObjectId, start: int, most: int) -> Printed | None:
    about = await database[FILES.name].find_one({"_id": file})
    if about is None:
        return None
    first = await _find_first(database, about, start)
    size, skipped, body = int(about["length"]), start - first * int(about["chunkSize"]), bytearray()
    chunks = database[FILE_CHUNKS.name].find({"files_id": file, "n": {"$gte": first}}).sort("n", 1)
    async for chunk in chunks:
        piece = _read_bytes(chunk)
        body += piece[skipped : skipped + most - len(body)]
        skipped = max(0, skipped - len(piece))
        if len(body) >= most:
            break
    return Printed(bytes(body), size)


async def _find_first(database: Any, about: Doc, start: int) -> int:
    """The chunk to begin with. Text is cut by characters, so where its bytes lie is known only by reading it."""
    text = {"files_id": about["_id"], "n": 0, "data": {"$type": "string"}}
    if await database[FILE_CHUNKS.name].find_one(text, {"_id": 1}) is not None:
        return 0
    return int(start // int(about["chunkSize"]))


def _read_bytes(chunk: Doc) -> bytes:
    data = chunk["data"]
    return data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
