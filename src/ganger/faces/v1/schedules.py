"""Schedules: which there are, when their ticks are, and what each tick adds."""

from typing import Any, Final

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, PayloadTooLarge
from ganger.core.ids import QueueId
from ganger.core.retry import from_text
from ganger.core.task import NewTask
from ganger.engine.schedules import Planned, Schedules, Work
from ganger.engine.submit import check_tasks
from ganger.engine.ticks import next_ticks
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import NO_CONTENT, Answer, Reply, answer_json
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route, word
from ganger.faces.v1.backend import Backend, sign
from ganger.faces.v1.flags import read_limit
from ganger.wire.v1 import schedules as wire
from ganger.wire.v1.answers import Names
from ganger.wire.v1.requests import decode, read_retries
from ganger.wire.v1.specs import describe_again, show_spec
from ganger.wire.v1.words import name_type

_MOST_TICKS: Final = 1_000
_LATEST: Final = 1 << 47
"""Some four thousand years: what calendars can count."""

_LARGEST: Final = 512 << 10
"""A schedule is read whole, with what its ticks add inside of it."""

_PATH: Final = "/v1/schedules"
_TICKS: Final = frozenset({"after", "limit"})


def list_schedule_routes(backend: Backend, clock: Clock) -> list[Route]:
    """Every address under `/v1/schedules`."""
    of, one, told = ScheduleDoor(backend, clock), f"{_PATH}/{{name}}", wire.ScheduleTold
    ticks = f"{one}/ticks"
    routes = [
        Route("GET", _PATH, Need.READ, of.list_all, "List the schedules", answer=list[told]),  # type: ignore[valid-type]
        Route("POST", _PATH, Need.SUBMIT, of.add, "Add a schedule", body=wire.ScheduleIn, answer=told, status=201),
        Route("GET", one, Need.READ, of.show, "Show a schedule", answer=told),
        Route(
            "PATCH", one, Need.SUBMIT, of.change, "Change, pause or resume a schedule",
            body=wire.ScheduleChangeIn, answer=told,
        ),
        Route("DELETE", one, Need.CANCEL, of.remove, "Remove a schedule; the tasks that it made stay", status=204),
        Route("GET", ticks, Need.READ, of.ticks, "When the next ticks are", _TICKS, answer=wire.TicksTold),
    ]  # fmt: skip
    return word(routes, wire.PARAMETERS)


class ScheduleDoor:
    """The endpoints of `/v1/schedules`."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._clock = clock
        self._schedules = Schedules(backend.engine, clock)

    async def list_all(self, request: Request) -> Answer:
        names = await self._backend.name_queues()
        return answer_json([self._tell(planned, names) async for planned in self._schedules.all(skip_bad=True)])

    async def add(self, request: Request) -> Answer:
        """Keep a new schedule, unless its name is taken."""
        schedule, draft = wire.read_schedule(decode(await request.body(), wire.ScheduleIn))
        queue = await self._find_queue(draft.queue, request.grant)
        work = _make_work(draft.task._replace(queue=queue))
        self._check(work)
        await self._backend.demand_new(request.grant, [NewTask(queue, work.kind, work.spec)])
        await self._schedules.add(schedule, work, by=sign(request.grant))
        return await self._show(schedule.name, 201)

    async def show(self, request: Request) -> Answer:
        return await self._show(request.values["name"])

    async def change(self, request: Request) -> Answer:
        """Change a schedule and what its ticks add, and then pause or resume it."""
        said, name = decode(await request.body(), wire.ScheduleChangeIn), request.values["name"]
        if said == wire.ScheduleChangeIn():
            raise BadInput("the body changes nothing: see the description of this address")
        async with self._backend.writing:
            planned = await self._schedules.get(name)
            await self._backend.demand_submit(request.grant, QueueId(planned.work.queue))
            await self._rewrite(planned, said, request.grant)
            await self._turn(planned, said.paused, request.grant)
        return await self._show(name)

    async def _rewrite(self, planned: Planned, said: wire.ScheduleChangeIn, grant: Grant) -> None:
        schedule = wire.change_schedule(planned.schedule, said)
        work = await self._change_work(planned.work, said, grant)
        if (schedule, work) != (planned.schedule, planned.work):
            await self._backend.demand_new(grant, [NewTask(QueueId(work.queue), work.kind, work.spec)])
            await self._schedules.change(planned, schedule, work, by=sign(grant))

    async def _change_work(self, work: Work, said: wire.ScheduleChangeIn, grant: Grant) -> Work:
        changes = said.metadata
        fields = {field: getattr(work, field) for field in work.__struct_fields__}
        for field in ("priority", "description", "timeout"):
            if (value := getattr(changes, field)) is not None:
                fields[field] = value
        if changes.retries is not None:
            fields["retry"] = read_retries(changes.retries)
        if changes.queue is not None:
            fields["queue"] = int(await self._find_queue(changes.queue, grant))
        fields["spec"] = wire.change_tick_spec(work.kind, work.spec, said.data)
        if not changes.description:
            again = describe_again(work.kind, work.description, work.spec, fields["spec"])
            fields["description"] = again or work.description
        changed = Work(**fields)
        self._check(changed)
        return changed

    async def _turn(self, planned: Planned, paused: bool | None, grant: Grant) -> None:
        """Pause or resume it; one that is so already stays so."""
        if paused is None or paused == planned.paused:
            return
        turn = self._engine.hold if paused else self._engine.kick
        await turn([planned.task], by=sign(grant))

    async def remove(self, request: Request) -> Answer:
        await self._schedules.remove(request.values["name"], by=sign(request.grant))
        return Reply(NO_CONTENT)

    async def ticks(self, request: Request) -> Answer:
        """A dry run: when it will be, as if it were not paused."""
        planned = await self._schedules.get(request.values["name"])
        after = _read_time(request.query.get("after"), self._clock.wall())
        most = read_limit(request.query.get("limit"), _MOST_TICKS) if "limit" in request.query else 5
        return answer_json({"ticks": next_ticks(planned.schedule, most, after)})

    async def _find_queue(self, name: str, grant: Grant) -> QueueId:
        grant.demand(Need.SUBMIT, name)
        return (await self._backend.find_queue(name, grant)).id

    def _check(self, work: Work) -> None:
        """BadInput now, rather than at the first tick."""
        if len(work.spec) > _LARGEST:
            raise PayloadTooLarge(f"what a tick adds has more than {_LARGEST} bytes", limit=_LARGEST)
        check_tasks([NewTask(**{field: getattr(work, field) for field in work.__struct_fields__})], self._engine.limits)

    async def _show(self, name: str, status: int = 200) -> Answer:
        return answer_json(self._tell(await self._schedules.get(name), await self._backend.name_queues()), status)

    def _tell(self, planned: Planned, names: Names) -> dict[str, Any]:
        ticks = next_ticks(planned.schedule, 1, max(planned.last.until, self._clock.wall()))
        return {
            **planned.schedule._asdict(),
            "id": str(planned.task),
            "paused": planned.paused,
            "next": ticks[0] if ticks else None,
            "last": None if planned.last.task is None else str(planned.last.task),
            "owner": planned.owner,
            "metadata": _tell_work(planned.work, names),
            "data": show_spec(planned.work.kind, planned.work.spec),
        }


def _make_work(task: NewTask) -> Work:
    return Work(**{field: getattr(task, field) for field in Work.__struct_fields__})


def _tell_work(work: Work, names: Names) -> dict[str, Any]:
    told = {
        "type": name_type(work.kind),
        "queue": names.get(QueueId(work.queue)),
        "priority": work.priority,
        "description": work.description or name_type(work.kind),
        "retries": None if work.retry is None else max(0, from_text(work.retry).max_attempts - 1),
        "timeout": work.timeout,
        "limit_key": work.limit_key,
        "requires": list(work.requires) or None,
    }
    return {field: value for field, value in told.items() if value is not None}


def _read_time(text: str | None, now: int) -> int:
    if text is None:
        return now
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and int(text) < _LATEST):
        raise BadInput(f"after is {text!r:.80}; give milliseconds since 1970", field="after")
    return int(text)
