"""Whatever is sent to the addresses of Ganger's own clients, the server says what is wrong, and never fails itself."""

import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from ganger.core.node import Registration
from ganger.core.task import Kind, NewTask
from ganger.engine.store import Change, Chunk, Datum, Edit, Note, Progress, Query, QueueChange
from tests.protocol.v1.harness import Site, command, story_in

EXTREMES: tuple[Any, ...] = (
    None, -1, 0, 1 << 31, 1 << 62, 1 << 63, 1 << 64, 10**30, 1e308, -0.5, True, "", "x" * 3_000, "\x00", "a\nb",
    "é" * 99, [], {}, [[]], [None], {"a": 1},
)  # fmt: skip


def vary(sample: Any) -> Iterator[Any]:
    """The sample with each of its leaves and branches replaced by each extreme, one at a time."""
    for place in list_places(sample):
        for extreme in EXTREMES:
            varied = copy.deepcopy(sample)
            yield replace(varied, place, extreme)


def list_places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from list_places(entry, (*at, key))


def replace(value: Any, place: tuple[Any, ...], extreme: Any) -> Any:
    if not place:
        return extreme
    target = value
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = extreme
    return value


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


QUESTIONS: dict[str, Any] = {
    "tasks": {"ids": [1, 2]},
    "find": plain(Query(queue=1, statuses=(-2, 1), kind="command", key="k", after=1, most=5)),  # type: ignore[arg-type]
    "look": {"task": 1, "most": 10},
    "value": {"task": 1, "key": "spec", "start": 0, "most": 10, "fence": 1},
    "family": {"task": 1, "most": 10},
    "ready": {"node": "n"},
    "events": {"after": 0, "most": 10},
    "wait": {"ids": [999], "until_held": True},
    "bell": {"seen": {"events": 0}},
}
TASK = NewTask(1, Kind.PAYLOAD, b"x", key="k", description="d", requires=("a",), parents=())  # type: ignore[arg-type]
BODIES: dict[str, Any] = {
    "/v1/engine/submit": {"tasks": [plain(TASK)], "data": [[0, "k", base64.b64encode(b"v").decode()]], "act": None},
    "/v1/engine/edits": plain([Edit(1, change=Change(priority=1, description="x"))]),  # type: ignore[arg-type]
    "/v1/engine/acts": {"action": "hold", "ids": [1], "reason": "r", "queue": 1, "most": 1},
    "/v1/engine/retry": {"task": 1},
    "/v1/engine/data": {"task": 1, "key": "k", "value": "", "only_if_unset": False},
    "/v1/engine/queue": plain(QueueChange(name="q", if_absent=True)),
    "/v1/engine/progress": {"percent": 50.0, "info": "x"},
    "/v1/engine/drain": {"node": 1, "resume": False},
    "/v1/workers": plain(Registration("n", "secret", 3, queues=("a",), kinds=("command",), labels=("l",))),
    "/v1/workers/1/beat": {"lease": 1_000, "vitals": [1, 1, 1, 0.5, 1, 1, ""]},
    "/v1/workers/1/take": {
        "settle": [{"task": 1, "fence": 1, "outcome": {"kind": "fail", "code": 3, "reason": "r", "delay": 1}}],
        "claim": {"queues": [1], "most": 1, "ids": [1], "start": True, "length": 60_000},
    },
    "/v1/workers/1/start": {"leases": [[1, 1]]},
    "/v1/workers/1/renew": {"leases": [[1, 1]], "length": 1_000},
    "/v1/workers/1/notes": plain(
        [
            Note(1, 1, progress=Progress(50.0, "x")),  # type: ignore[arg-type]
            Note(1, 1, chunk=Chunk("stdout", 0, b"x", size=1)),  # type: ignore[arg-type]
            Note(1, 1, datum=Datum("k", b"x", size=1)),  # type: ignore[arg-type]
        ]
    ),
}


@story_in
async def test_no_question_breaks_the_server(site: Site, folder: Path) -> None:
    assert folder.name
    (task,) = await site.add(command())
    await site.finish(task)
    for path, sample in QUESTIONS.items():
        for question in vary(sample):
            address = f"/v1/engine/{path}?ask={quote(json.dumps(question))}&wait=0"
            if path not in ("events", "wait", "bell"):
                address = address.removesuffix("&wait=0")
            reply = await site.ask("GET", address)
            assert reply.status_code < 500, (path, question, reply.text)


@story_in
async def test_no_change_breaks_the_server(site: Site, folder: Path) -> None:
    assert folder.name
    await site.add(command(), command())
    await site.take("1")
    header = {"ganger-node": "secret"}
    for path, sample in BODIES.items():
        for body in vary(sample):
            reply = await site.ask("POST", path, body, headers=header)
            assert reply.status_code < 500, (path, body, reply.text)
    assert (await site.ask("GET", "/health/ready")).status_code == 200
