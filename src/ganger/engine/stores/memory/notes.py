"""Notes: what a holder writes without moving its task."""

from ganger.core.clock import Moment
from ganger.core.errors import BadInput
from ganger.core.event import Entry, Fact
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import DEFAULT_TTR, Renewal
from ganger.core.state import Verdict, is_final
from ganger.engine.store import OUTPUT_TOPIC, Chunk, Datum, Note, Progress, Touch
from ganger.engine.stores.memory.follows import follow
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.step import NO_HOLDER, Step
from ganger.engine.stores.memory.tables import StreamKey, Tables


def write(step: Step, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
    verdicts = [_write_one(step, note) for note in notes]
    return [(index, verdict.value) for index, verdict in enumerate(verdicts) if verdict is not Verdict.APPLIED]


def _write_one(step: Step, note: Note) -> Verdict:
    if sum(part is not None for part in note[2:]) != 1:
        raise BadInput("a note is exactly one of touch, progress, datum, chunk and follow")
    row = step.tables.rows.get(note.task)
    if row is None:
        return Verdict.GONE
    verdict = _judge(step, row, note)
    if verdict is Verdict.APPLIED:
        _store(step, row, note)
    return verdict


def _judge(step: Step, row: Row, note: Note) -> Verdict:
    if note.follow is not None:
        return Verdict.WRONG_STATUS if is_final(row.task.status) else Verdict.APPLIED
    if note.datum is not None and note.fence == 0:
        closed = is_final(row.task.status) or note.datum.key == "spec"
        return Verdict.WRONG_STATUS if closed else Verdict.APPLIED
    if note.fence != row.task.fence or not step.lease_valid(row.task):
        return Verdict.STALE
    frozen = note.datum is not None and note.datum.key == "spec"
    return Verdict.WRONG_STATUS if frozen else Verdict.APPLIED


def _store(step: Step, row: Row, note: Note) -> None:
    if note.touch is not None:
        _touch(step, row, note.touch)
    if note.progress is not None:
        _progress(step, row, note.progress)
    if note.datum is not None:
        put_datum(step, row.task.id, note.datum)
    if note.chunk is not None:
        append(step, note.task, note.fence, note.chunk)
    if note.follow is not None:
        follow(step, row, note.follow)


def _touch(step: Step, row: Row, touch: Touch) -> None:
    """A lease that lives by its node's liveness needs no touch, and takes none."""
    if row.task.renewal == Renewal.TOUCH:
        length = touch.length or row.task.ttr or DEFAULT_TTR
        step.put(row.having(until=Moment(step.now + length)))


def _progress(step: Step, row: Row, progress: Progress) -> None:
    step.put(row.having(percent=progress.percent, info=progress.info, modified=step.wall))
    entry = Entry(row.task.id, row.task.status, row.task.fence, progress.info)
    step.tell(Fact.PROGRESSED, row.task.queue, row.task.holder or NO_HOLDER, entry)


def put_datum(step: Step, task: TaskId, datum: Datum) -> None:
    if datum.only_if_unset and step.tables.datum(task, datum.key) is not None:
        return
    size = datum.size if datum.value is None else len(datum.value)
    step.tables.put_datum(task, datum._replace(size=size, only_if_unset=False))


def append(step: Step, task: TaskId, fence: Fence, chunk: Chunk) -> None:
    """Store a chunk unless every byte of it is there already, in place of those that it covers."""
    chunk = chunk._replace(size=len(chunk.body) if chunk.blob is None else chunk.size)
    stored = chunks_of(step.tables, task, fence, chunk.stream)
    step.wake(OUTPUT_TOPIC.format(task))
    end = chunk.start + chunk.size
    if _covered_until(stored, chunk.start) >= end:
        return
    for one in stored:
        if chunk.start <= one.start and one.start + one.size <= end:
            step.tables.chunks.drop(StreamKey(task, fence, chunk.stream, one.start))
    key = StreamKey(task, fence, chunk.stream, chunk.start)
    step.tables.chunks.put(key, (key, chunk))


def chunks_of(tables: Tables, task: TaskId, fence: Fence, stream: str) -> list[Chunk]:
    """The chunks of a stream in their order."""
    keys = [key for key in tables.chunk_keys.bucket(task) if key.fence == fence and key.stream == stream]
    return [tables.chunks[key][1] for key in keys]


def _covered_until(chunks: list[Chunk], start: int) -> int:
    """How far the stream is there without a gap, from `start` on."""
    reached = start
    for chunk in sorted(chunks, key=lambda chunk: chunk.start):
        if chunk.start <= reached:
            reached = max(reached, chunk.start + chunk.size)
    return reached
