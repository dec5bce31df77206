"""The routes that show tasks."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

from ganger.core.errors import BadInput, TaskNotFound
from ganger.core.ids import QueueId
from ganger.core.task import Task
from ganger.engine.store import Query
from ganger.faces.disbatch.answering import answer
from ganger.faces.disbatch.asking import ask
from ganger.faces.disbatch.backend import DisbatchBackend
from ganger.faces.disbatch.telling import Teller
from ganger.faces.http.reply import Answer
from ganger.faces.http.request import Request
from ganger.wire.disbatch.asking import Question, read_question
from ganger.wire.disbatch.params import Options, demand_object, part_options

_STEP: Final = 1_000


class Tasks:
    """The endpoints under `/tasks` that take a GET."""

    def __init__(self, backend: DisbatchBackend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def search(self, request: Request) -> Answer:
        """Tasks that match, or how many there are."""
        said, options = await self._read(request)
        question = read_question(said)
        if options.counted:
            return answer({"count": await self._count(question)}, options.pretty is True)
        if question == Question() and options.limit is None:
            raise BadInput("refusing to return everything - include one or more indexed search restrictions")
        found = await self._gather(question, options)
        told = await Teller(self._backend, options).tell_all(found)
        one = options.limit == 1
        return answer((told[0] if told else {}) if one else told, options.pretty is True)

    async def show(self, request: Request) -> Answer:
        """One task, in lines unless that is not wanted."""
        _, options = await self._read(request)
        task = await self._backend.find_task(request.values["id"])
        (told,) = await Teller(self._backend, options).tell_all([task])
        return answer(told, options.pretty is not False)

    async def _read(self, request: Request) -> tuple[dict[str, Any], Options]:
        return part_options(demand_object(await ask(request), "invalid parameters passed"), self._backend.limits.page)

    async def _gather(self, question: Question, options: Options) -> list[Task]:
        """At most a page; more than that is told, and not cut off in silence."""
        most = options.limit or self._backend.limits.page + 1
        found: list[Task] = []
        skipped = 0
        async with aclosing(self._match(question)) as tasks:
            async for task in tasks:
                skipped += 1
                if skipped > options.skip:
                    found.append(task)
                if len(found) == most:
                    break
        if len(found) > self._backend.limits.page:
            raise BadInput(
                f"more than {self._backend.limits.page} tasks match: give .limit and .skip, or ask for fewer"
            )
        return found

    async def _count(self, question: Question) -> int:
        if question.ids or question.nodes:
            async with aclosing(self._match(question)) as tasks:
                return len([1 async for _ in tasks])
        wanted = await self._find_queues(question)
        codes = set(question.statuses)
        return sum(
            number
            for queue, each in (await self._backend.count()).items()
            for code, number in each.by_status.items()
            if (wanted is None or queue in wanted) and (not codes or code in codes)
        )

    async def _match(self, question: Question) -> AsyncGenerator[Task, None]:
        queues = await self._find_queues(question)
        walk = self._named(question, queues) if question.ids else self._walk(question.statuses, queues)
        seen = 0
        async with aclosing(walk) as tasks:
            async for task in tasks:
                seen += 1
                if not question.nodes or await self._backend.name_node(task) in question.nodes:
                    yield task
                elif seen > self._backend.limits.scan:
                    raise BadInput(f"more than {self._backend.limits.scan} tasks to look through: name a queue, too")

    async def _find_queues(self, question: Question) -> list[QueueId] | None:
        """Those that are asked for, each once; None for all."""
        if not question.queues:
            return None
        return list(dict.fromkeys([(await self._backend.find_queue(name)).id for name in question.queues]))

    async def _walk(self, statuses: tuple[int, ...], queues: list[QueueId] | None) -> AsyncGenerator[Task, None]:
        for queue in [None] if queues is None else queues:
            async with aclosing(self._engine.walk(Query(queue, statuses or None, most=_STEP))) as tasks:
                async for task in tasks:
                    yield task

    async def _named(self, question: Question, queues: list[QueueId] | None) -> AsyncGenerator[Task, None]:
        """Those of the ids that are there, and match."""
        for face in question.ids:
            with suppress(TaskNotFound):
                task = await self._backend.find_task(face)
                fits = not question.statuses or task.status in question.statuses
                if fits and (queues is None or task.queue in queues):
                    yield task
