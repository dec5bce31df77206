"""`ganger top`: what its keys do, what its tables say, and that both reach a real store from a terminal."""

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ganger.cli import keys
from ganger.cli.board import CHOICES, SORTS, Board, press
from ganger.cli.keys import read_keys
from ganger.cli.parts import Order, read_parts
from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from tests.unit.cli.console import Console

LISTED = [TaskId(9), TaskId(8), TaskId(7)]


def _press(*typed: str, board: Board | None = None) -> Board:
    board = board or Board()
    for key in typed:
        board = press(board, key, LISTED)
    return board


def test_what_a_terminal_sends_is_read_as_keys() -> None:
    assert read_keys(b"\x1b[A\x1bOBq\r\t") == [keys.UP, keys.DOWN, "q", keys.ENTER, keys.TAB]
    assert read_keys(b"\x1b") == [keys.ESCAPE]
    assert read_keys(b"\x1b[15~s\x1b[1;5Cr") == ["s", "r"]


def test_arrows_choose_a_task_and_enter_looks_into_it() -> None:
    assert _press(keys.DOWN).chosen == 9
    assert _press(keys.DOWN, "j", "j", "j").chosen == 7
    assert _press(keys.UP).chosen == 7
    opened = _press(keys.DOWN, keys.DOWN, keys.ENTER)
    assert opened.opened == 8
    assert _press(keys.DOWN, keys.DOWN, board=opened).scrolled == 2
    assert _press(keys.ESCAPE, board=opened).opened is None


def test_tab_goes_through_the_lists_and_s_through_the_orders() -> None:
    assert [_press(*[keys.TAB] * n).choice for n in range(5)] == [*CHOICES, "running"]
    assert [_press(*["s"] * n).sort for n in range(5)] == [*SORTS, "newest"]
    assert _press("r").reverse


@pytest.mark.parametrize(("key", "act"), [("K", "kill"), ("C", "cancel"), ("H", "hold"), ("G", "kick"), ("R", "retry")])
def test_an_act_is_done_to_the_chosen_task_only_after_a_yes(key: str, act: str) -> None:
    asked = _press(keys.DOWN, key)
    assert (asked.asked, asked.act, asked.about) == (act, None, 9)
    assert _press("y", board=asked).act == act
    assert (_press("n", board=asked).act, _press("q", board=asked).over) == (None, False)
    assert "choose the task" in _press(key).said


def test_an_act_of_an_opened_task_is_about_that_task() -> None:
    assert _press(keys.DOWN, keys.DOWN, keys.ENTER, "K").about == 8


def test_q_and_the_end_of_the_input_end_it() -> None:
    assert _press("q").over
    assert _press(keys.DOWN, keys.ENTER, "q").over
    assert _press(keys.DOWN, "K", keys.END).over


def _take_two(console: Console) -> list[int]:
    """Of two tasks one is begun by a node, and the other claimed and not begun."""
    ids = [console.submit("--description", name, "--", "true") for name in ("first", "second")]

    async def take(engine: Engine) -> None:
        node = await engine.nodes.register(Registration("mill", "token"))
        queues = tuple(queue.id for queue in await engine.queues.all())
        claimed = await engine.claim(Claim(node.id, queues, most=2))
        await engine.start([one.lease for one in claimed if one.id == ids[0]])

    console.act(take)
    return ids


def test_what_runs_is_listed_apart_from_what_is_only_claimed(console: Console) -> None:
    first, second = _take_two(console)

    parts = console.act(lambda engine: read_parts(engine, 30))

    assert [(part.title, list(part.tasks)) for part in parts[2:]] == [
        ("running", [first]),
        ("claimed by a node, not begun", [second]),
    ]
    printed = console.out("top")
    assert printed.index("running\n") < printed.index("first") < printed.index("not begun\n") < printed.index("second")


def test_no_name_of_a_column_stands_for_two_things(console: Console) -> None:
    _take_two(console)
    lists = [Order(choice) for choice in CHOICES]

    async def read(engine: Engine) -> list[tuple[str, ...]]:
        return [tuple(part.columns) for order in lists for part in await read_parts(engine, 30, order)]

    tables = console.act(read)
    counted = {"WAIT", "HELD", "CLAIMED", "RUN", "DONE", "FAIL", "ENDED", "TOTAL", "SLOTS"}
    of_tasks = {column for columns in tables if columns[0] == "ID" for column in columns}
    assert of_tasks
    assert not of_tasks & counted


def test_tasks_are_sorted_as_asked(console: Console) -> None:
    early = console.submit("--queue", "b", "--", "true")
    late = console.submit("--queue", "a", "--", "true")

    async def read(engine: Engine) -> list[list[TaskId]]:
        orders = (
            Order("waiting"), Order("waiting", reverse=True), Order("waiting", "queue"),
            Order("waiting", "queue", reverse=True),
        )  # fmt: skip
        return [list((await read_parts(engine, 30, order))[2].tasks) for order in orders]

    assert console.act(read) == [[late, early], [early, late], [late, early], [early, late]]


class _Terminal:
    """`ganger top` on a terminal of its own, with all that it has drawn so far."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def wait_for(self, *texts: str) -> None:
        """Until each of the texts was drawn, in this order, after what was waited for before."""
        end = time.monotonic() + 60
        pattern = re.compile(".*?".join(map(re.escape, texts)), re.DOTALL)
        while (found := pattern.search(self._seen)) is None:
            assert time.monotonic() < end, self._seen[-3000:]
            self._seen += os.read(self._descriptor, 65536).decode("utf-8", "replace")
        self._seen = self._seen[found.end() :]


@contextmanager
def _show_top(store: str) -> Iterator[_Terminal]:
    there, here = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "LINES": "40", "GANGER_STORE": store, "TERM": "xterm-256color"}
    program = "from ganger.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "top"], stdin=here, stdout=here, stderr=here, env=environment
    ) as process:
        os.close(here)
        try:
            yield _Terminal(there)
            process.wait(60)
        finally:
            process.kill()
            os.close(there)


@pytest.mark.slow
def test_a_person_looks_into_a_task_and_holds_it_by_keys(console: Console) -> None:
    task = console.submit("--description", "sort the names", "--", "sort")
    status: Callable[[], str] = lambda: console.lines("show", task, "--json")[0]["status"]  # noqa: E731

    with _show_top(console.url) as screen:
        screen.wait_for("running tasks")
        screen.type("\t")
        screen.wait_for("waiting tasks", "sort the names")
        screen.type("\x1b[B\r")
        screen.wait_for("description", "sort the names", "[no_node]")
        screen.type("H")
        screen.wait_for(f"hold task {task}?")
        screen.type("n")
        screen.wait_for("nothing was done")
        screen.type("H")
        screen.wait_for(f"hold task {task}?")
        screen.type("y")
        screen.wait_for(f"task {task} is held")
        screen.type("q")

    assert status() == "held"
