"""What belongs to somebody, and how every address is asked for it: see `test_walls.py`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import msgspec

from ganger.core.clock import Wall
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.schedule import Schedule
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.schedules import Schedules, Work
from ganger.engine.store import Change, Claim, Edit, Note, Progress, QueueChange
from ganger.runtime.clock import SystemClock
from ganger.wire.specs import CommandSpec, encode
from ganger.wire.v1 import remote
from tests.protocol.v1.harness import Site, command

MINE: Final = "mine"
OTHER: Final = "other"
PLUGGED: Final = "plugged"
JOBS: Final = "jobs"
MARKER: Final = "nobody-else-sees-this"
SECRET: Final = "the secret of the node"
Row = tuple[str, str]


@dataclass(frozen=True)
class Ask:
    """A request. `queue` is the one that a token must be for, if that is what counts. `secret` is the node's."""

    path: str
    json: Any = None
    content: bytes | None = None
    queue: str = MINE
    secret: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class World:
    """A task that runs, above it one that has ended, below it one that waits; a schedule; a node: all of one user."""

    def __init__(self, site: Site, number: int) -> None:
        self.site = site
        self.number = number
        self.above = self.task = self.child = TaskId(0)
        self.node = NodeId(0)
        self.queue = QueueId(0)
        self.held: Claimed

    @property
    def marker(self) -> str:
        """What whoever sees these tasks has seen."""
        return f"{MARKER}-{self.number}-"

    @property
    def schedule(self) -> str:
        return f"schedule {self.number}"

    async def build(self) -> None:
        engine, clock = self.site.engine, SystemClock()
        self.queue = (await engine.queues.named(MINE)).id
        said = NewTask(self.queue, Kind.COMMAND, encode(CommandSpec(argv=[self.marker])), description=self.marker)
        tasks = [said, said._replace(parents=(Edge(-1),)), said._replace(parents=(Edge(-2),))]
        self.above, self.task, self.child = (await engine.submit(tasks)).ids
        await Schedules(engine, clock).add(
            Schedule(self.schedule, every=3_600_000), Work(int(self.queue), Kind.SHELL, b'{"script":"x"}'), by="test"
        )
        said_of_node = Registration(f"node {self.number}", SECRET, 5, queues=(MINE,), kinds=(Kind.COMMAND,))
        self.node = (await engine.nodes.register(said_of_node)).id
        await engine.settle([(await self._claim(self.above), Succeed(self.marker.encode()))])
        self.held = await self._claim(self.task)
        await engine.start([self.held.lease])
        await engine.put_data(self.child, "k", self.marker.encode())

    async def _claim(self, task: TaskId) -> Claimed:
        (claimed,) = await self.site.engine.claim(Claim(self.node, ids=(task,)))
        return claimed

    async def picture(self) -> str:
        """All that others must leave as it is; a beat of the node's own changes nothing of this."""
        engine, ids = self.site.engine, [self.above, self.task, self.child]
        data = [(await engine.read_data(one, "k")).body for one in ids]
        looks = [(await engine.look(one)).family for one in ids]
        specs = [(await engine.read_data(one, "spec")).body for one in ids]
        planned = await Schedules(engine, SystemClock()).get(self.schedule)
        nodes = [(node.name, node.state) for node in await engine.nodes.all() if node.id == self.node]
        counts = {each.queue: sum(each.by_status.values()) for each in (await engine.counts())[0]}
        tasks = [None if one is None else one._replace(modified=Wall(0)) for one in await engine.tasks(ids)]
        return repr((tasks, data, looks, specs, planned, nodes, counts, await engine.queues.all()))


def of(world: World, *more: Any) -> list[Any]:
    return [world.task, world.held.fence, *more]


def engine_task(world: World, **fields: Any) -> Any:
    new = NewTask(world.queue, Kind.COMMAND, encode(CommandSpec(argv=["x"])), parents=(Edge(world.task),))
    return msgspec.to_builtins(remote.SubmitIn([new._replace(**fields)]))


def edits(*given: Edit) -> Any:
    return msgspec.to_builtins(list(given))


def ask_json(kind: msgspec.Struct) -> str:
    return str(httpx2.QueryParams({"ask": msgspec.json.encode(kind).decode()}))


def worker(world: World, name: str, json: Any = None, path: str = "") -> Ask:
    return Ask(path or f"/v1/workers/{world.node}/{name}", json, secret=True)


QUESTIONS: Final[dict[Row, Callable[[World], list[Ask]]]] = {
    ("POST", "/v1/nodes"): lambda w: [Ask("/v1/nodes", command(parent=str(w.task), queue=MINE))],
    ("GET", "/v1/nodes"): lambda w: [Ask(f"/v1/nodes?parent={w.task}")],
    ("GET", "/v1/nodes/{id}"): lambda w: [Ask(f"/v1/nodes/{one}") for one in (w.above, w.task, w.child)],
    ("PATCH", "/v1/nodes/{id}"): lambda w: [
        Ask(f"/v1/nodes/{w.child}", {"metadata": {"priority": 1}}),
        Ask(f"/v1/nodes/{w.child}", {"data": {"args": ["evil"]}}),
    ],
    ("DELETE", "/v1/nodes/{id}"): lambda w: [Ask(f"/v1/nodes/{w.child}")],
    ("GET", "/v1/nodes/{id}/data"): lambda w: [Ask(f"/v1/nodes/{w.child}/data")],
    ("GET", "/v1/nodes/{id}/data/{key}"): lambda w: [Ask(f"/v1/nodes/{w.child}/data/k")],
    ("PUT", "/v1/nodes/{id}/data/{key}"): lambda w: [
        Ask(f"/v1/nodes/{w.child}/data/k", {"value": "new"}),
        Ask(f"/v1/nodes/{w.child}/data/command", {"value": "evil"}),
    ],
    ("GET", "/v1/nodes/{id}/logs"): lambda w: [Ask(f"/v1/nodes/{w.task}/logs")],
    ("POST", "/v1/schedules"): lambda w: [
        Ask(
            "/v1/schedules",
            {
                "name": f"new {w.number}",
                "every": 3_600_000,
                "metadata": {"type": "command", "queue": MINE},
                "data": {"command": "x"},
            },
        )
    ],
    ("PATCH", "/v1/schedules/{name}"): lambda w: [Ask(f"/v1/schedules/{w.schedule}", {"metadata": {"priority": 7}})],
    ("GET", "/v1/engine/tasks"): lambda w: [Ask(f"/v1/engine/tasks?{ask_json(remote.TasksAsk([w.child]))}")],
    ("GET", "/v1/engine/family"): lambda w: [Ask(f"/v1/engine/family?{ask_json(remote.LookAsk(w.task))}")],
    ("GET", "/v1/engine/directory"): lambda w: [Ask("/v1/engine/directory")],
    ("POST", "/v1/engine/submit"): lambda w: [
        Ask("/v1/engine/submit", engine_task(w)),
        Ask("/v1/engine/submit", engine_task(w, kind=Kind.SHELL, spec=b'{"script":"id"}')),
    ],
    ("POST", "/v1/engine/edits"): lambda w: [
        Ask("/v1/engine/edits", edits(Edit(w.child, change=Change(spec=encode(CommandSpec(argv=["evil"])))))),
        Ask("/v1/engine/edits", edits(Edit(w.child, link=(w.above, "success")))),
        Ask("/v1/engine/edits", edits(Edit(w.child, unlink=w.task))),
    ],
    ("POST", "/v1/engine/progress"): lambda w: [Ask("/v1/engine/progress", {"percent": 5, "info": "x"})],
    ("POST", "/v1/engine/retry"): lambda w: [Ask("/v1/engine/retry", {"task": w.above})],
    ("POST", "/v1/engine/data"): lambda w: [Ask("/v1/engine/data", {"task": w.child, "key": "k", "value": "aGk="})],
    ("POST", "/v1/engine/queue"): lambda w: [
        Ask("/v1/engine/queue", msgspec.to_builtins(QueueChange(name=MINE, if_absent=True)))
    ],
    ("POST", "/v1/workers"): lambda w: [
        Ask("/v1/workers", msgspec.to_builtins(Registration(f"new {w.number}", "s", 1, queues=(MINE,))))
    ],
    ("POST", "/v1/workers/{id}/beat"): lambda w: [worker(w, "beat", {})],
    ("POST", "/v1/workers/{id}/leave"): lambda w: [worker(w, "leave")],
    ("POST", "/v1/workers/{id}/take"): lambda w: [
        worker(w, "take", {"settle": [], "claim": {"queues": [w.queue], "most": 1}})
    ],
    ("POST", "/v1/workers/{id}/wake"): lambda w: [worker(w, "wake")],
    ("POST", "/v1/workers/{id}/start"): lambda w: [worker(w, "start", {"leases": [of(w)]})],
    ("POST", "/v1/workers/{id}/renew"): lambda w: [worker(w, "renew", {"leases": [of(w)]})],
    ("POST", "/v1/workers/{id}/notes"): lambda w: [
        worker(w, "notes", msgspec.to_builtins([Note(w.task, w.held.fence, progress=Progress(5, "x"))]))
    ],
    ("PUT", "/v1/workers/{id}/data"): lambda w: [
        worker(w, "", b"", f"/v1/workers/{w.node}/data?task={w.task}&fence={w.held.fence}&name=k")
    ],
    ("POST", "/api/jobs/submit"): lambda w: [Ask("/api/jobs/submit?priority=batch", content=b"payload", queue=JOBS)],
    ("POST", "/api/work"): lambda w: [Ask("/api/work?id=me", queue=JOBS)],
    ("POST", "/disbatch/tasks"): lambda w: [
        Ask("/disbatch/tasks", {"queue": PLUGGED, "params": [{"a": 1}]}, queue=PLUGGED)
    ],
    ("POST", "/disbatch/tasks/{queue}"): lambda w: [Ask(f"/disbatch/tasks/{PLUGGED}", [{"a": 1}], queue=PLUGGED)],
}
UNGUESSABLE: Final = frozenset({
    "/api/work/{lease}", "/api/work/{lease}/upload", "/api/work/{lease}/failed", "/api/work/{lease}/progress",
})  # fmt: skip
"""The address itself is the secret of a lease: `test_the_lease_of_a_job` asks for these."""

OF_MONGODB: Final = frozenset({"/disbatch/tasks/{queue}/{collection}"})
"""It needs collections, which only that store has: the queue is asked for by the same lines as in the row before."""

OF_ITSELF: Final = frozenset({"/v1/engine/family", "/v1/engine/directory", "/v1/engine/progress"})
"""An attempt is answered about itself, whatever it names."""
