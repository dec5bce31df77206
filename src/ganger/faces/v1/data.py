"""The data of a task: which keys there are, one value in pages, and a value written whole or slot by slot.

A slot is written over what is there from its `start` on, and only if the value is still the one whose page id the
writer was given. The whole is read, changed and stored; one such change at a time is made in this server.
"""

from typing import Any, Final, NamedTuple

from ganger.core.errors import BadCursor, BadInput, PayloadTooLarge, StalePage
from ganger.core.ids import TaskId
from ganger.core.task import Task
from ganger.core.token import Attempt
from ganger.engine.engine import Engine
from ganger.engine.store import Change, Edit
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1.backend import Backend
from ganger.faces.v1.flags import read_limit
from ganger.faces.v1.values import Part, Values
from ganger.wire.v1 import requests
from ganger.wire.v1.pages import name_question, read_offset
from ganger.wire.v1.specs import MADE_BY_RUNS, change_spec, describe_again, list_spec_keys
from ganger.wire.v1.values import MARK, TEXT, ValueIn, check_key, pack

PAGE_PARAMETERS: Final = frozenset({"start", "pid", "pagid", "limit"})
SLOT_PARAMETERS: Final = frozenset({"start", "pid", "pagid"})
_LEAST: Final = 16


class Data:
    """The endpoints under `/v1/nodes/{id}/data`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._values = Values(backend)

    async def list_keys(self, request: Request) -> Answer:
        """The keys of a task's data."""
        look = await self._engine.look(await self._backend.reach(request))
        keys = self._values.list_keys(look, await self._values.read_spec(look.task))
        page_id = name_question(self._backend.tag, int(look.task.id), keys)
        start = _read_start(request, page_id)
        most = read_limit(request.query.get("limit"), self._backend.limits.page)
        told: dict[str, Any] = {"keys": keys[start : start + most]}
        if start + most < len(keys):
            told["pagination"] = {"next": str(start + most), "pid": page_id}
        return answer_json(told)

    async def get(self, request: Request) -> Answer:
        """One value, or a page of it."""
        task = await self._backend.find_task(await self._backend.reach(request))
        key, most = request.values["key"], read_limit(request.query.get("limit"), self._backend.limits.piece, _LEAST)
        start, page_id = request.query.get("start") or "0", _page_id(request)
        if page_id is None and start != "0":
            raise BadInput("start goes with the pid of the page before", field="pid")
        piece = await self._values.read(task, key, Part(read_offset(start), most, page_id))
        shown = piece.show()
        told = {"key": key, "data": shown.data, "encoding": shown.encoding, "size": piece.size}
        following = piece.start + shown.used
        if following < piece.size or piece.growing:
            told["pagination"] = {"next": str(following), "pid": piece.version}
        return answer_json(told)

    async def put(self, request: Request) -> Answer:
        """Replace a value; with `start` only if it is unset, or one slot of it."""
        task = await self._backend.find_task(await self._backend.reach(request))
        await self._backend.demand_submit(request.grant, task.queue)
        key, start = request.values["key"], request.query.get("start")
        given = requests.decode(await request.body(), ValueIn)
        if key in MADE_BY_RUNS:
            raise BadInput(f"{key!r} is made by the run of the task and cannot be given", field="key")
        async with self._backend.writing:
            if key in list_spec_keys(task.kind):
                return await self._put_spec(task, key, given, request)
            check_key(key)
            writer = Writer(self._engine, task.id, request.grant.attempt)
            if not start:
                return await self._put_whole(writer, key, given, only_if_unset=start is not None)
            return await self._put_slot(writer, key, given, request)

    async def _put_spec(self, task: Task, key: str, given: ValueIn, request: Request) -> Answer:
        if request.query.get("start") is not None:
            raise BadInput(f"{key!r} says what is run: it is replaced whole, without start", field="start")
        before = await self._values.read_spec(task)
        spec = change_spec(task.kind, before, {key: given.value})
        description = describe_again(task.kind, task.description, before, spec)
        await self._backend.edit([Edit(task.id, change=Change(spec, description=description))], request.grant)
        piece = await self._values.read(task, key, Part(0, _LEAST))
        return _tell_put(key, piece.version, piece.size, replaced=True)

    async def _put_whole(self, writer: "Writer", key: str, given: ValueIn, only_if_unset: bool) -> Answer:
        task, (content, mark) = writer.task, pack(given)
        before = await self._engine.read_page(task, key, 0, 1)
        if only_if_unset and before.version is not None:
            return _tell_put(key, before.version, 0, replaced=False)
        await writer.put(key, content, only_if_unset=only_if_unset)
        if (await self._values.read_mark(task, key) or TEXT) != mark:
            await writer.put(f"{MARK}{key}", mark.encode())
        after = await self._engine.read_page(task, key, 0, 1)
        return _tell_put(key, after.version or "", after.size, replaced=True)

    async def _put_slot(self, writer: "Writer", key: str, given: ValueIn, request: Request) -> Answer:
        task, page_id, start = writer.task, _page_id(request), read_offset(request.query["start"])
        if page_id is None:
            raise BadInput("start goes with the pid of the answer before", field="pid")
        most = self._backend.limits.value
        old = await self._engine.read_page(task, key, 0, most + 1, page_id)
        if start > old.size:
            raise BadCursor(f"start is {start}, and the value has {old.size} bytes", field="start")
        content, _ = pack(given)
        end = start + len(content)
        if max(old.size, end) > most:
            raise PayloadTooLarge(f"a value that is put together has at most {most} bytes", limit=most)
        await writer.put(key, old.body[:start] + content + old.body[end:])
        new = await self._engine.read_page(task, key, 0, 1)
        return _tell_put(key, new.version or "", end, replaced=True)


class Writer(NamedTuple):
    """Who writes data of a task: an attempt, under its lease, or an operator."""

    engine: Engine
    task: TaskId
    attempt: Attempt | None

    async def put(self, key: str, content: bytes, *, only_if_unset: bool = False) -> None:
        if self.attempt is not None and self.attempt.lease.task != self.task:
            await self.engine.put_kin_data(self.attempt, self.task, key, content, only_if_unset=only_if_unset)
        else:
            writer = self.task if self.attempt is None else self.attempt.lease
            await self.engine.put_data(writer, key, content, only_if_unset=only_if_unset)


def _page_id(request: Request) -> str | None:
    return request.query.get("pid", request.query.get("pagid"))


def _read_start(request: Request, page_id: str) -> int:
    start = request.query.get("start")
    if not start:
        return 0
    if _page_id(request) != page_id:
        raise StalePage("the keys have changed since that page, or its pid is missing: begin again")
    return read_offset(start)


def _tell_put(key: str, version: str, following: int, replaced: bool) -> Answer:
    """`start` and `pid` are those of the first slot, `pagination` those of what follows what was written."""
    pagination = {"next": str(following), "pid": version}
    return answer_json({"key": key, "replaced": replaced, "start": "0", "pid": version, "pagination": pagination})
