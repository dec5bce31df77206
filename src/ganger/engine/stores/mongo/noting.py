"""Notes: what a holder writes without moving its task."""

from typing import Final

from ganger.core.clock import Moment
from ganger.core.errors import BadInput
from ganger.core.event import Entry, Fact
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import DEFAULT_TTR, Renewal
from ganger.core.state import Verdict, is_final
from ganger.engine.store import OUTPUT_TOPIC, Chunk, Datum, Note, Progress, Touch
from ganger.engine.stores.mongo import choices
from ganger.engine.stores.mongo.following import follow
from ganger.engine.stores.mongo.row import ChunkRow, DatumRow, Row
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.tables import CHUNKS, DATA, datum_key

OUTPUT_BYTES: Final = "output"


async def write(step: Step, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
    await step.load(note.task for note in notes)
    verdicts = [await _write_one(step, note) for note in notes]
    return [(index, verdict.value) for index, verdict in enumerate(verdicts) if verdict is not Verdict.APPLIED]


async def _write_one(step: Step, note: Note) -> Verdict:
    if sum(part is not None for part in note[2:]) != 1:
        raise BadInput("a note is exactly one of touch, progress, datum, chunk and follow")
    row = await step.row(note.task)
    if row is None:
        return Verdict.GONE
    verdict = await _judge(step, row, note)
    if verdict is Verdict.APPLIED:
        await _store(step, row, note)
    return verdict


async def _judge(step: Step, row: Row, note: Note) -> Verdict:
    if note.follow is not None:
        return Verdict.WRONG_STATUS if is_final(row.task.status) else Verdict.APPLIED
    if note.datum is not None and note.fence == 0:
        closed = is_final(row.task.status) or note.datum.key == "spec"
        return Verdict.WRONG_STATUS if closed else Verdict.APPLIED
    if note.fence != row.task.fence or not await step.lease_valid(row):
        return Verdict.STALE
    frozen = note.datum is not None and note.datum.key == "spec"
    return Verdict.WRONG_STATUS if frozen else Verdict.APPLIED


async def _store(step: Step, row: Row, note: Note) -> None:
    if note.touch is not None:
        _touch(step, row, note.touch)
    if note.progress is not None:
        _progress(step, row, note.progress)
    if note.datum is not None:
        await put_datum(step, row.task.id, note.datum)
    if note.chunk is not None:
        await append(step, note.task, note.fence, note.chunk)
    if note.follow is not None:
        await follow(step, row, note.follow)


def _touch(step: Step, row: Row, touch: Touch) -> None:
    """A lease that lives by its node's liveness needs no touch, and takes none."""
    if row.task.renewal == Renewal.TOUCH:
        length = touch.length or row.task.ttr or DEFAULT_TTR
        step.put(row._replace(term=length).having(until=Moment(step.now + length)))


def _progress(step: Step, row: Row, progress: Progress) -> None:
    step.put(row.having(percent=progress.percent, info=progress.info, modified=step.wall))
    entry = Entry(row.task.id, row.task.status, row.task.fence, progress.info)
    step.tell(Fact.PROGRESSED, row.task.queue, row.task.holder or NO_HOLDER, entry)


async def put_datum(step: Step, task: TaskId, datum: Datum) -> None:
    known = await step.draft.get(DATA, datum_key(task, datum.key))
    if datum.only_if_unset and known is not None:
        return
    size = datum.size if datum.value is None else len(datum.value)
    step.draft.put(DATA, DatumRow(task, datum._replace(size=size, only_if_unset=False)))


async def append(step: Step, task: TaskId, fence: Fence, chunk: Chunk) -> None:
    """Store a chunk unless every byte of it is there already, in place of those that it covers."""
    chunk = chunk._replace(size=len(chunk.body) if chunk.blob is None else chunk.size)
    found = await step.draft.select(choices.chunks_of(task))
    stored = [one for one in found if one.fence == fence and one.chunk.stream == chunk.stream]
    step.wake(OUTPUT_TOPIC.format(task))
    end = chunk.start + chunk.size
    if _covered_until([one.chunk for one in stored], chunk.start) >= end:
        return
    covered = [one for one in stored if chunk.start <= one.chunk.start and one.chunk.start + one.chunk.size <= end]
    for one in covered:
        step.draft.drop(CHUNKS, one.key)
    new = ChunkRow(task, fence, chunk)
    await step.draft.load(CHUNKS, [new.key])
    step.draft.put(CHUNKS, new)
    await count_output(step, task, chunk.size - sum(one.chunk.size for one in covered))


async def count_output(step: Step, task: TaskId, more: int) -> None:
    """The task has so many more bytes of output (or fewer), and the store likewise."""
    row = await step.known(task)
    step.put(row._replace(output=row.output + more))
    step.session.add(OUTPUT_BYTES, more)


def _covered_until(chunks: list[Chunk], start: int) -> int:
    """How far the stream is there without a gap, from `start` on."""
    reached = start
    for chunk in sorted(chunks, key=lambda chunk: chunk.start):
        if chunk.start <= reached:
            reached = max(reached, chunk.start + chunk.size)
    return reached
