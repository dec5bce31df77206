"""Figures for Prometheus: how many tasks have each status, what was told how often, who is there, who waits."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from ganger.core.ids import QueueId
from ganger.core.node import Node
from ganger.core.queue import Counts
from ganger.core.state import status_of
from ganger.engine.engine import Engine
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import Answer, Reply
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route

KIND: Final = b"text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], int]


def list_metric_routes(engine: Engine, count_visits: Callable[[], int]) -> list[Route]:
    async def measure(request: Request) -> Answer:
        names = {queue.id: queue.name for queue in await engine.queues.all()}
        counts, facts = await engine.counts()
        told = [(names.get(queue, str(queue)), by_fact) for queue, by_fact in facts.items()]
        lines = [
            *_write("ganger_tasks", "gauge", "Tasks by queue and status.", _tasks(counts, names)),
            *_write("ganger_facts_total", "counter", "Facts that were told, by queue.", _facts(told)),
            *_write("ganger_nodes", "gauge", "Nodes by state.", _nodes(await engine.nodes.all())),
            *_write("ganger_http_waiting", "gauge", "Requests that wait for something.", [({}, count_visits())]),
        ]
        return Reply(200, "\n".join([*lines, ""]).encode(), KIND)

    return [Route("GET", "/metrics", Need.READ, measure, "Figures for Prometheus", kind=KIND)]


def _tasks(counts: Iterable[Counts], names: Mapping[QueueId, str]) -> Iterator[Sample]:
    for each in counts:
        sums: dict[str, int] = {}
        for code, number in each.by_status.items():
            status = status_of(code)
            word = "unknown" if status is None else status.name.lower()
            sums[word] = sums.get(word, 0) + number
        for word, number in sums.items():
            yield {"queue": names.get(each.queue, str(each.queue)), "status": word}, number


def _facts(told: Iterable[tuple[str, Mapping[str, int]]]) -> Iterator[Sample]:
    for queue, facts in told:
        for fact, number in facts.items():
            yield {"queue": queue, "fact": fact}, number


def _nodes(nodes: Iterable[Node]) -> Iterator[Sample]:
    states: dict[str, int] = {}
    for node in nodes:
        states[node.state] = states.get(node.state, 0) + 1
    return (({"state": state}, number) for state, number in states.items())


def _write(name: str, kind: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for labels, number in samples:
        told = ",".join(f'{label}="{_quote(value)}"' for label, value in labels.items())
        yield f"{name}{{{told}}} {number}" if told else f"{name} {number}"


def _quote(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
