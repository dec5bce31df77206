"""`ganger disbatch`."""

import pytest

from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.queue import OnLost
from ganger.core.state import Status
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from tests.unit.cli.console import Console

DEMO = "Disbatch::Plugin::Demo"


def test_a_queue_is_made_and_its_tasks_are_counted(console: Console) -> None:
    face = console.out("disbatch", "create", "demo", DEMO, "--threads", 4, "--sort", "lifo")
    first, second = console.out("disbatch", "add", "demo", '{"n": 1}', '{"n": 2}').split()
    console.work(code=1)

    (queue,) = console.lines("disbatch", "status", "--json")
    assert (queue["id"], queue["plugin"], queue["threads"], queue["sort"]) == (face, DEMO, 4, "lifo")
    assert (queue["queued"], queue["running"], queue["completed"]) == (1, 0, 1)
    assert console.out("disbatch", "status").splitlines()[1].split() == [face, DEMO, "demo", "4", "-", "1", "0", "1"]
    assert int(second) == int(first) + 1
    assert console.act(lambda engine: engine.queues.named("demo")).policy.on_lost == OnLost.ORPHAN


def test_tasks_come_from_standard_input_line_by_line(console: Console) -> None:
    console.run("disbatch", "create", "demo", DEMO)

    ids = console.out("disbatch", "add", "demo", types='{"n": 1}\n\n{"n": 2}\n').split()
    assert len(ids) == 2
    part = console.act(lambda engine: engine.read_data(TaskId(int(ids[1])), "spec"))
    assert part.body == b'{"params":{"n":2}}'


def test_nodes_are_listed_once_for_each_name(console: Console) -> None:
    console.submit("--", "true")
    assert "no node" in console.err("disbatch", "nodes")
    console.work()

    (node,) = console.lines("disbatch", "nodes", "--json")
    assert (node["node"], node["live"], node["maxthreads"]) == ("worker", True, None)
    assert console.out("disbatch", "nodes").splitlines()[1].startswith("worker  yes")


async def take_and_go(engine: Engine) -> int:
    """What a node that goes leaves behind, with a lease that nobody has ended yet."""
    node = await engine.nodes.register(Registration("gone", "token"))
    (queue,) = await engine.queues.all()
    (claimed,) = await engine.claim(Claim(node.id, (queue.id,), start=True))
    await engine.nodes.leave(node.id, "token")
    return claimed.id


def test_what_a_lost_node_had_in_hand_is_orphaned(console: Console) -> None:
    console.run("disbatch", "create", "demo", DEMO)
    console.run("disbatch", "add", "demo", '{"n": 1}')
    task = console.act(take_and_go)

    assert console.out("disbatch", "orphan", "gone") == str(task)
    (found,) = console.act(lambda engine: engine.tasks([TaskId(task)]))
    assert found is not None
    assert found.status == Status.ORPHANED
    assert "nothing in hand" in console.err("disbatch", "orphan", "gone")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "demo", DEMO), 4, "called 'demo' already"),
        (("create", "x", DEMO, "--threads", "many"), 2, "threads must be"),
        (("create", "x", DEMO, "--sort", "random"), 2, "sort must be"),
        (("add", "demo", "[1]"), 2, "objects"),
        (("add", "demo", "{}"), 2, "key/value"),
        (("add", "demo", "{"), 2, "is not JSON"),
        (("add", "none", '{"n": 1}'), 3, "[queue_not_found]"),
        (("add", "default", '{"n": 1}'), 2, "has no plugin"),
        (("orphan", "nobody"), 3, "[node_not_found]"),
        (("orphan", "worker"), 4, "is here"),
    ],
)
def test_what_is_wrong_is_refused(console: Console, words: tuple[str, ...], code: int, said: str) -> None:
    console.submit("--", "true")
    console.run("disbatch", "create", "demo", DEMO)
    console.work()

    assert said in console.err("disbatch", *words, exits=code)


def test_only_a_store_in_mongodb_has_a_dialect(console: Console) -> None:
    for words in (("dialect",), ("dialect", "later")):
        assert "only a store in MongoDB has a dialect" in console.err("disbatch", *words, exits=2)
