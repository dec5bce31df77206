"""Figures for Prometheus: tasks by status, how deep and how old each queue is, facts, who is there, who waits."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from ganger.core.ids import QueueId
from ganger.core.node import Node
from ganger.core.queue import Counts
from ganger.core.state import status_of
from ganger.engine.engine import Engine
from ganger.engine.figures import Figures, Meter
from ganger.engine.nodes import Nodes
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import Answer, Reply
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route

KIND: Final = b"text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], float]


def list_metric_routes(engine: Engine, meter: Meter, count_visits: Callable[[], int]) -> list[Route]:
    async def measure(request: Request) -> Answer:
        figures = await meter.read()
        names = {each.queue.id: each.queue.name for each in figures}
        told = [(each.queue.name, each.facts) for each in figures]
        lines = [
            *_write("ganger_tasks", "gauge", "Tasks by queue and status.", _tasks([f.counts for f in figures], names)),
            *_write("ganger_facts_total", "counter", "Facts that were told, by queue.", _facts(told)),
            *_write_figures(figures),
            *await _write_nodes(engine.nodes),
            *_write("ganger_http_waiting", "gauge", "Requests that wait for something.", [({}, count_visits())]),
        ]
        return Reply(200, "\n".join([*lines, ""]).encode(), KIND)

    return [Route("GET", "/metrics", Need.READ, measure, "Figures for Prometheus", kind=KIND)]


def _write_figures(figures: Sequence[Figures]) -> Iterator[str]:
    """What `/v1/stats` tells too; the rates are those of the facts."""
    told: dict[tuple[str, str], dict[str, float | None]] = {
        ("ganger_queue_ready", "Tasks that could begin."): {one.queue.name: one.ready for one in figures},
        ("ganger_queue_running", "Tasks that run."): {one.queue.name: one.running for one in figures},
        ("ganger_queue_claimed", "Tasks that a node has and has not begun."): {
            one.queue.name: one.claimed for one in figures
        },
        ("ganger_queue_oldest_ready_seconds", "For how long the oldest ready task has been ready."): {
            one.queue.name: None if one.oldest is None else one.oldest / 1000 for one in figures
        },
        ("ganger_queue_wanted_slots", "Slots that the queue could use now."): {
            one.queue.name: one.wanted_slots for one in figures
        },
        ("ganger_queue_wanted_workers", "Workers that have so many slots."): {
            one.queue.name: one.wanted_workers for one in figures
        },
    }
    for (name, words), numbers in told.items():
        samples = [({"queue": queue}, number) for queue, number in numbers.items() if number is not None]
        yield from _write(name, "gauge", words, samples)


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


async def _write_nodes(nodes: Nodes) -> list[str]:
    """How many nodes there are, and what each that is here has in hand."""
    known = await nodes.all()
    in_hand = await nodes.in_hand(here := [node for node in known if node.here])
    running, claimed = ([({"node": node.name}, in_hand[node.id][part]) for node in here] for part in (0, 1))
    return [
        *_write("ganger_nodes", "gauge", "Nodes by state.", _nodes(known)),
        *_write("ganger_node_running", "gauge", "Tasks that the node runs.", running),
        *_write("ganger_node_claimed", "gauge", "Tasks that the node has and has not begun.", claimed),
    ]


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
