"""Nodes: lists of them, new ones, changes, removal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ganger.core.clock import Wall
from ganger.core.errors import BadInput, DuplicateKey, NotAllowed
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import Position, QueueId
from ganger.core.task import Task
from ganger.engine.store import Change, Edit, Query, Submitted
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import NO_CONTENT, Answer, Reply, answer_json
from ganger.faces.http.request import Request
from ganger.faces.v1 import repeats
from ganger.faces.v1.backend import Backend, sign
from ganger.faces.v1.finding import FILTERS, Finder, Found
from ganger.faces.v1.flags import read_flag, read_limit
from ganger.faces.v1.traces import give_context
from ganger.faces.v1.values import Values
from ganger.faces.v1.webhooks import Webhooks
from ganger.wire.v1 import answers, requests
from ganger.wire.v1.pages import name_question, read_position
from ganger.wire.v1.specs import change_spec, describe_again, list_spec_keys
from ganger.wire.v1.words import read_id

LIST_PARAMETERS: Final = frozenset({*FILTERS, "metadata", "new", "start", "pid", "pagid", "limit"})


class Nodes:
    """The endpoints under `/v1/nodes`, but for the data."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._values = Values(backend)
        self._finder = Finder(backend)
        self._webhooks = Webhooks(backend)

    async def list_nodes(self, request: Request) -> Answer:
        """High level information about many tasks at once."""
        asked = request.query
        await self._keep_to_children(request.grant, asked)
        fields = answers.read_fields(asked.get("metadata"))
        page_id = name_question(self._backend.tag, [asked.get(name) for name in (*FILTERS, "new")])
        place = read_position(asked.get("start"), asked.get("pid", asked.get("pagid")), page_id)
        most = read_limit(asked.get("limit"), self._backend.limits.page)
        query = (await self._finder.read_filters(asked))._replace(with_parents=answers.needs_parents(fields))
        if "new" in asked and place is None:
            found = await self._wait_for_new(query._replace(after=await self._place_of(asked["new"])), most)
        else:
            found = await self._finder.gather(query._replace(after=place), most)
        queues = await self._backend.name_queues()
        told = [answers.tell_node(answers.Node(task, parents, queues), fields) for task, parents in found.tasks]
        return answer_json(answers.tell_page(told, None if found.next is None else str(found.next), page_id))

    async def _keep_to_children(self, grant: Grant, asked: Mapping[str, str]) -> None:
        """An attempt lists its own children, while it holds its lease. NotAllowed, StaleLease."""
        if grant.lease is None:
            return
        if asked.get("parent") != str(grant.lease.task):
            raise NotAllowed(f"an attempt lists its own children: parent={grant.lease.task}", task=grant.lease.task)
        await self._engine.family(grant.lease, 1)

    async def _place_of(self, new: str) -> Position:
        if new in ("0", requests.ROOT):
            return Position(0)
        task = read_id(new, "new")
        (found,) = await self._engine.tasks([task])
        # A task that was removed since has left its place: ids grow with positions.
        return Position(task) if found is None else found.position

    async def _wait_for_new(self, query: Query, most: int) -> Found:
        news = self._backend.news
        while True:
            mark = await news.mark()
            found = await self._finder.gather(query, most)
            while not found.tasks and found.next is not None:
                found = await self._finder.gather(query._replace(after=found.next), most)
            if found.tasks:
                return found
            await self._wait(mark, None if query.statuses is not None else Fact.SUBMITTED)

    async def _wait(self, mark: Position, fact: Fact | None) -> None:
        """Until something came that may be what is waited for; with a state anything that happens may be that."""
        async for page in self._backend.news.follow(mark):
            if fact is None or any(event.fact is fact for event in page):
                return

    async def add(self, request: Request) -> Answer:
        """New tasks, all or none; the ids are answered in the order of the tasks."""
        drafts = await self._draft(request)
        asked, drafts = len(drafts), await self._webhooks.attach(drafts, request.grant)
        if any(map(repeats.is_compared, drafts)):
            made = await self._submit(drafts, request.grant)
        else:
            tasks, data = repeats.divide(drafts)
            # A request may wait, beside hundreds of others with thousands of nodes: it keeps nothing that it need not.
            del drafts
            made = await self._engine.submit(tasks, data=data, under=request.grant.attempt)
        existing = set(made.existing)
        return answer_json(
            [answers.tell_made(task, index in existing) for index, task in enumerate(made.ids[:asked])], 201
        )

    async def _draft(self, request: Request) -> list[requests.Draft]:
        nodes = requests.read_nodes(await request.body())
        queues = await self._find_queues({node.metadata.queue for node in nodes}, request.grant)
        drafts = repeats.give_keys(requests.draft_nodes(nodes, queues), request)
        await self._backend.demand_new(request.grant, [draft.task for draft in drafts])
        return give_context(drafts, request) if self._backend.traces else drafts

    async def _submit(self, drafts: Sequence[requests.Draft], grant: Grant) -> Submitted:
        """Store tasks that may be there, and look at their keys again if somebody took one of them in between."""
        known = await repeats.compare_before(self._engine, drafts)
        while True:
            settled = [repeats.settle_conflicts(draft, index in known) for index, draft in enumerate(drafts)]
            tasks, data = repeats.divide(settled)
            try:
                made = await self._engine.submit(tasks, data=data, under=grant.attempt)
            except DuplicateKey:
                before, known = known, await repeats.compare_before(self._engine, drafts)
                if known == before:
                    raise
            else:
                await repeats.compare_after(self._engine, drafts, made.ids, set(made.existing))
                return made

    async def _find_queues(self, names: set[str], grant: Grant) -> dict[str, QueueId]:
        """The queues of these names. An attempt adds tasks to its own queue where it names none."""
        if grant.lease is not None:
            own = (await self._backend.find_task(grant.lease.task)).queue
            return {name: await self._find_for_attempt(name, own) for name in names}
        for name in sorted(names):
            grant.demand(Need.SUBMIT, name)
        return {name: (await self._backend.find_queue(name, grant)).id for name in names}

    async def _find_for_attempt(self, name: str, own: QueueId) -> QueueId:
        if name in (requests.DEFAULT_QUEUE, (await self._engine.queues.get(own)).name):
            return own
        return (await self._engine.queues.named(name)).id

    async def show(self, request: Request) -> Answer:
        """One node: its metadata, and as much of its data as is not large."""
        look = await self._engine.look(await self._backend.reach(request))
        parents = tuple(Edge(*edge) for edge in look.family.parents)
        node = answers.Node(look.task, parents, await self._backend.name_queues())
        data, large = await self._values.show_all(look)
        told: dict[str, Any] = {"metadata": answers.tell_node(node, None), "data": data}
        return answer_json(told | ({"large": large} if large else {}))

    async def change(self, request: Request) -> Answer:
        """Change what has not started: its metadata, what is run, and what it waits for."""
        task = await self._backend.find_task(await self._backend.reach(request))
        await self._backend.demand_submit(request.grant, task.queue)
        patch = requests.decode(await request.body(), requests.PatchIn)
        async with self._backend.writing:
            edits = [*await self._changes(task, patch), *await self._links(task, patch)]
            if not edits:
                raise BadInput("the body changes nothing: give metadata or data")
            await self._backend.edit(edits, request.grant)
        return await self.show(request)

    async def _changes(self, task: Task, patch: requests.PatchIn) -> list[Edit]:
        said = patch.metadata
        spec, description = await self._change_spec(task, patch.data) if patch.data else (None, None)
        retry = None if said.retries is None else requests.read_retries(said.retries)
        due = None if said.due is None else Wall(said.due)
        change = Change(spec, said.priority, due, said.description or description, retry, said.timeout)
        return [] if change == Change() else [Edit(task.id, change=change)]

    async def _change_spec(self, task: Task, data: dict[str, Any]) -> tuple[bytes, str | None]:
        """The new spec, and the description that follows from it if that was not somebody's own."""
        keys = list_spec_keys(task.kind)
        if strange := sorted(set(data) - keys):
            raise BadInput(
                f"{strange[0]!r:.80} is not what is run: change it with PUT; here are {', '.join(sorted(keys))}",
                field=f"data.{strange[0][:200]}",
            )
        before = await self._values.read_spec(task)
        after = change_spec(task.kind, before, data)
        return after, describe_again(task.kind, task.description, before, after)

    async def _links(self, task: Task, patch: requests.PatchIn) -> list[Edit]:
        """The edits that give the task these parents and no others."""
        wanted = requests.read_parents(patch.metadata)
        if wanted is None:
            return []
        had = dict((await self._engine.look(task.id, _MOST_PARENTS)).family.parents)
        gone = [Edit(task.id, unlink=parent) for parent in had if wanted.get(parent) != had[parent]]
        new = [Edit(task.id, link=(parent, on)) for parent, on in wanted.items() if had.get(parent) != on]
        return [*new, *gone] if not set(wanted) & {edit.unlink for edit in gone} else [*gone, *new]

    async def remove(self, request: Request) -> Answer:
        """Take a task out; its children get its parents, or go too. What runs of them is ended first if so asked."""
        task, grant = await self._backend.reach(request), request.grant
        descendants, kill = read_flag(request.query, "descendants"), read_flag(request.query, "kill")
        if grant.lease is None:
            await self._engine.remove(task, by=sign(grant), descendants=descendants, kill=kill)
        elif kill:
            raise NotAllowed("an attempt does not kill what it removes", field="kill")
        else:
            await self._backend.edit([Edit(task, remove=True, descendants=descendants)], grant)
        return Reply(NO_CONTENT)


_MOST_PARENTS: Final = 10_000
