"""How a holder's words are kept: touch, progress, data and output, each under its fence."""

from typing import NamedTuple

from ganger.core.event import Fact
from ganger.core.lease import DEFAULT_TTR
from ganger.core.state import LEASED, Verdict, is_final
from ganger.databases.sqlite import Session
from ganger.engine.store import OUTPUT_TOPIC, Chunk, Datum, Note, Progress, Touch
from ganger.engine.stores.sqlite.dropping import OUTPUT_BYTES
from ganger.engine.stores.sqlite.following import follow
from ganger.engine.stores.sqlite.guard import lease_valid
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step


class Noted(NamedTuple):
    queue: int
    status: int
    fence: int
    holder: int | None
    until: int | None
    touch: int
    ttr: int | None
    started: int | None


def write(session: Session, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
    step = Step(session)
    refused = take_notes(step, notes)
    step.finish()
    return refused


def take_notes(step: Step, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
    refused = []
    for index, note in enumerate(notes):
        row = next((Noted._make(row) for row in step.run(Q.note_read, (note.task,))), None)
        verdict = _judge(step, note, row)
        if row is None or verdict is not Verdict.APPLIED:
            refused.append((index, verdict.value))
        else:
            _store(step, note, row)
    return refused


def _judge(step: Step, note: Note, row: Noted | None) -> Verdict:
    if row is None:
        return Verdict.GONE
    if note.follow is not None:
        return Verdict.WRONG_STATUS if is_final(row.status) else Verdict.APPLIED
    frozen = note.datum is not None and note.datum.key == "spec"
    if note.fence == 0 and note.datum is not None:
        return Verdict.WRONG_STATUS if frozen or is_final(row.status) else Verdict.APPLIED
    if note.fence != row.fence or row.status not in LEASED or not lease_valid(step, row.holder, row.until):
        return Verdict.STALE
    return Verdict.WRONG_STATUS if frozen else Verdict.APPLIED


def _store(step: Step, note: Note, row: Noted) -> None:
    if note.touch is not None:
        _touch(step, note, note.touch, row)
    if note.progress is not None:
        _progress(step, note, note.progress, row)
    if note.datum is not None:
        put_datum(step, note.task, note.datum)
    if note.chunk is not None:
        _chunk(step, note, note.chunk)
    if note.follow is not None:
        follow(step, note.task, row.holder, note.follow)


def _touch(step: Step, note: Note, touch: Touch, row: Noted) -> None:
    length = touch.length or row.ttr or DEFAULT_TTR
    if row.touch:
        step.run(Q.note_touch, (step.now + length, step.wall, note.task))


def _progress(step: Step, note: Note, progress: Progress, row: Noted) -> None:
    step.run(Q.note_progress, (progress.percent, progress.info, step.wall, note.task))
    step.tell(Fact.PROGRESSED, row.queue, row.holder or 0, ((note.task, row.status, row.fence, progress.info),))


def put_datum(step: Step, task: int, datum: Datum) -> None:
    size = datum.size if datum.value is None else len(datum.value)
    row = (task, datum.key, datum.value, datum.blob, size)
    step.run(Q.data_put_unset if datum.only_if_unset else Q.data_put, row)
    step.run(Q.task_modified, (step.wall, task))


def _chunk(step: Step, note: Note, chunk: Chunk) -> None:
    body, size = (None, chunk.size) if chunk.blob is not None else (chunk.body, len(chunk.body))
    row = (note.task, note.fence, chunk.stream, chunk.start, body, chunk.blob, size)
    if added := _lay(step, row):
        step.counters[OUTPUT_BYTES] = step.counters.get(OUTPUT_BYTES, 0) + added
    step.session.wake(OUTPUT_TOPIC.format(note.task))


def _lay(step: Step, row: tuple[int, int, str, int, bytes | None, str | None, int]) -> int:
    """Store a chunk; how many bytes more there are. The usual one is a whole stream, of which nothing was there."""
    *stream, start, _, _, size = row
    if start == 0:
        step.run(Q.output_put, row)
        if step.session.connection.changes():
            return size
    if any(end >= start + size for (end,) in step.run(Q.output_before, (*stream, start))):
        return 0
    covered = sum(int(gone) for (gone,) in list(step.run(Q.output_cover, (*stream, start, start + size))))
    step.run(Q.output_put, row)
    return size - covered
