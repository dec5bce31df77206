"""How a holder's words are kept: touch, progress, data and output, each under its fence."""

from ganger.core.event import Fact
from ganger.core.lease import DEFAULT_TTR
from ganger.core.state import LEASED, Verdict, is_final
from ganger.engine.store import OUTPUT_TOPIC, Chunk, Datum, Note, Progress, Touch
from ganger.engine.stores.postgres.dropping import OUTPUT_BYTES
from ganger.engine.stores.postgres.following import follow
from ganger.engine.stores.postgres.guard import lease_valid, read_rows
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import Row, columns
from ganger.engine.stores.postgres.step import Step


async def write(step: Step, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
    rows = await read_rows(step, [note.task for note in notes])
    refused = await take_notes(step, notes, rows)
    await step.finish()
    return refused


async def take_notes(step: Step, notes: tuple[Note, ...], rows: dict[int, Row]) -> list[tuple[int, str]]:
    refused = []
    followed: list[tuple[Row, int]] = []
    for index, note in enumerate(notes):
        row = rows.get(note.task)
        verdict = _judge(step, note, row)
        if row is None or verdict is not Verdict.APPLIED:
            refused.append((index, verdict.value))
        elif note.follow is not None:
            followed.append((row, note.follow))
        else:
            await _store(step, note, row)
    if followed:
        await follow(step, followed)
    return refused


def _judge(step: Step, note: Note, row: Row | None) -> Verdict:
    if row is None:
        return Verdict.GONE
    if note.follow is not None:
        return Verdict.WRONG_STATUS if is_final(row.status) else Verdict.APPLIED
    frozen = note.datum is not None and note.datum.key == "spec"
    if note.fence == 0 and note.datum is not None:
        return Verdict.WRONG_STATUS if frozen or is_final(row.status) else Verdict.APPLIED
    if note.fence != row.fence or row.status not in LEASED or not lease_valid(step, row):
        return Verdict.STALE
    return Verdict.WRONG_STATUS if frozen else Verdict.APPLIED


async def _store(step: Step, note: Note, row: Row) -> None:
    if note.touch is not None:
        await _touch(step, note.touch, row)
    if note.progress is not None:
        await _progress(step, note.progress, row)
    if note.datum is not None:
        await put_datum(step, note.task, note.datum)
    if note.chunk is not None:
        await _chunk(step, note, note.chunk)


async def _touch(step: Step, touch: Touch, row: Row) -> None:
    length = touch.length or row.ttr or DEFAULT_TTR
    if row.touch:
        await step.run(Q.note_touch, step.now + length, length, step.wall, row.id)


async def _progress(step: Step, progress: Progress, row: Row) -> None:
    await step.run(Q.note_progress, progress.percent, progress.info, step.wall, row.id)
    step.tell(Fact.PROGRESSED, row.queue, row.holder or 0, ((row.id, row.status, row.fence, progress.info),))


async def put_datum(step: Step, task: int, datum: Datum) -> None:
    size = datum.size if datum.value is None else len(datum.value)
    row = (task, datum.key, datum.value, datum.blob, size)
    if datum.only_if_unset:
        await step.run(Q.data_put_unset, *row)
    else:
        await step.run(Q.data_put_all, *columns([row], 5))
    await step.run(Q.task_modified, step.wall, task)


async def _chunk(step: Step, note: Note, chunk: Chunk) -> None:
    body, size = (None, chunk.size) if chunk.blob is not None else (chunk.body, len(chunk.body))
    row = (note.task, note.fence, chunk.stream, chunk.start, body, chunk.blob, size)
    if added := await _lay(step, row):
        step.add(*OUTPUT_BYTES, added)
    step.session.wake(OUTPUT_TOPIC.format(note.task))


async def _lay(step: Step, row: tuple[int, int, str, int, bytes | None, str | None, int]) -> int:
    """Store a chunk; how many bytes more there are. The usual one is a whole stream, of which nothing was there."""
    *stream, start, _, _, size = row
    if start == 0 and await step.run(Q.output_put, *row):
        return size
    if any(end >= start + size for (end,) in await step.run(Q.output_before, *stream, start)):
        return 0
    covered = sum(int(gone) for (gone,) in await step.run(Q.output_cover, *stream, start, start + size))
    await step.run(Q.output_put, *row)
    return size - covered
