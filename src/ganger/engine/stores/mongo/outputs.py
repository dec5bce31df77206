"""Output as strangers read it: a string in the task's document, or a file in GridFS if it is long.

Only tasks of queues that strangers share have it there as well; what the store itself keeps are chunks.
"""

from typing import Final

from ganger.core.state import Status, is_final
from ganger.databases.mongo import Doc, ObjectId, Table, date
from ganger.engine.stores.mongo import choices
from ganger.engine.stores.mongo.row import ChunkRow, Row
from ganger.engine.stores.mongo.step import Step

LONGEST_TEXT: Final = 64 * 1024
_CHUNK: Final = 255 * 1024
_STREAMS: Final = ("stdout", "stderr")


def _same(document: Doc) -> Doc:
    return document


def _id_of(document: Doc) -> ObjectId:
    found: ObjectId = document["_id"]
    return found


FILES: Final[Table[Doc]] = Table("tasks.files", _same, _same, _id_of)
FILE_CHUNKS: Final[Table[Doc]] = Table("tasks.chunks", _same, _same, _id_of)


async def show_output(step: Step, row: Row) -> Row:
    """The row with what its task wrote, if it has ended and strangers may want to know: always both streams."""
    queue = await step.queue_row(row.task.queue) if is_final(row.task.status) else None
    if queue is None or not queue.shared or (row.task.status < Status.SUCCEEDED and not row.output):
        return row
    chunks = await step.draft.select(choices.chunks_of(row.task.id)) if row.output else []
    shown = [_store(step, row, stream, _join(chunks, stream)) for stream in _STREAMS]
    return row._replace(stdout=shown[0], stderr=shown[1])


def _join(chunks: list[ChunkRow], stream: str) -> bytes:
    """The stream of the last attempt. In the place of what lies in blobs it says so: those are not here."""
    fences = [one.fence for one in chunks if one.chunk.stream == stream]
    parts = [one.chunk for one in chunks if one.chunk.stream == stream and one.fence == max(fences)]
    elsewhere = sum(part.size for part in parts if part.blob is not None)
    if elsewhere:
        return f"({elsewhere} bytes are kept elsewhere: `ganger logs` shows them)\n".encode()
    body = bytearray()
    for part in parts:
        body[part.start : part.start + part.size] = part.body
    return bytes(body)


def _store(step: Step, row: Row, stream: str, body: bytes) -> str | ObjectId:
    if len(body) <= LONGEST_TEXT:
        return body.decode("utf-8", "replace")
    file = step.face(step.draw("file"))
    about = {"length": len(body), "chunkSize": _CHUNK, "uploadDate": date(step.wall), "filename": stream}
    step.draft.put(FILES, {"_id": file, **about, "metadata": {"task_id": row.id}})
    for n, start in enumerate(range(0, len(body), _CHUNK)):
        part = {"files_id": file, "n": n, "data": body[start : start + _CHUNK]}
        step.draft.put(FILE_CHUNKS, {"_id": step.face(step.draw("file")), **part})
    return file
