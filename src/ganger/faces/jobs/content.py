"""What jobs carry, on its way in and out: never whole in memory."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from ganger.core.errors import BadInput, BlobMissing, Damage, GangerError, PayloadTooLarge
from ganger.core.ids import TaskId
from ganger.core.outcome import Hold, Outcome, Release
from ganger.core.task import Claimed
from ganger.engine.blob import BlobRef
from ganger.engine.engine import Engine
from ganger.faces.http.request import Request
from ganger.faces.jobs.backend import JobLimits
from ganger.wire.jobs.multipart import Begin, Content, End, Event, Multipart, is_form, read_boundary
from ganger.wire.jobs.words import read_description, read_new_key, read_priority

PAYLOAD: Final = "payload"
_READERS: Final = {"priority": read_priority, "description": read_description, "key": read_new_key}
FIELDS: Final = frozenset(_READERS)


class Form(NamedTuple):
    """A job as it was sent. Its payload is safe, or small."""

    payload: bytes | BlobRef
    priority: int
    description: str | None = None
    key: str | None = None


async def read_form(engine: Engine, request: Request, limits: JobLimits) -> Form:
    """Take in a job: as a form, or as a bare body with the fields behind the ? of the address."""
    kind, body = request.headers.get(b"content-type", b""), request.pieces(limits.payload, limits.idle)
    given: dict[str, Any] = {name: _READERS[name](text) for name, text in request.query.items()}
    if is_form(kind):
        await _read_parts(engine, _parse(body, Multipart(read_boundary(kind))), given, limits)
    else:
        read_priority(request.query.get("priority"))
        given[PAYLOAD] = await engine.keep(body)
    if PAYLOAD not in given:
        raise BadInput("the form has no part called payload, the file with the job", field=PAYLOAD)
    if "priority" not in given:
        read_priority(None)
    return Form(**given)


async def _parse(body: AsyncIterator[bytes], parser: Multipart) -> AsyncGenerator[Event, None]:
    async for piece in body:
        for event in parser.feed(piece):
            yield event
    if not parser.ended:
        raise BadInput("the form ends before its last line")


async def _read_parts(
    engine: Engine, events: AsyncGenerator[Event, None], given: dict[str, Any], limits: JobLimits
) -> None:
    async for event in events:
        if not isinstance(event, Begin):
            continue
        name = event.name
        if name != PAYLOAD and name not in _READERS:
            known = f"payload, {', '.join(_READERS)}"
            raise BadInput(f"the form has a part called {name!r:.80}; known are {known}", field=name[:200])
        if name in given:
            raise BadInput(f"{name} is given twice", field=name)
        if name == PAYLOAD:
            given[name] = await engine.keep(_read_part(events))
        else:
            given[name] = _READERS[name](await _read_field(name, _read_part(events), limits.field))


async def _read_part(events: AsyncIterator[Event]) -> AsyncGenerator[bytes, None]:
    async for event in events:
        if isinstance(event, Content):
            yield event.data
        elif isinstance(event, End):
            return


async def _read_field(name: str, content: AsyncIterator[bytes], most: int) -> str:
    whole = bytearray()
    async for piece in content:
        whole += piece
        if len(whole) > most:
            raise PayloadTooLarge(f"{name} has more than {most} bytes", limit=most)
    try:
        return whole.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8", field=name) from None


def judge_unreadable(error: GangerError) -> Outcome:
    """What becomes of a job whose payload cannot be read: if it is damaged, nobody will do better with it."""
    is_lost = isinstance(error, Damage | BlobMissing)
    return Hold(f"its payload: {error.message}") if is_lost else Release()


async def pour_payload(engine: Engine, job: Claimed) -> AsyncGenerator[bytes, None]:
    """What a job is about, which came with its claim if it is small."""
    if job.spec is not None:
        yield job.spec
        return
    async for piece in pour(engine, job.id, "spec"):
        yield piece


async def pour(engine: Engine, task: TaskId, key: str) -> AsyncGenerator[bytes, None]:
    """A value of a task from its begin to its end."""
    async with aclosing(engine.contents.pour(await engine.contents.find(task, key))) as pieces:
        async for piece in pieces:
            yield piece
