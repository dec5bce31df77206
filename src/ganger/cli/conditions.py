"""`ganger if` and `ganger until`: choose, or wait for something, without writing a file."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ganger.cli.opening import run_engine, take_json, take_store
from ganger.cli.printing import print_json

if TYPE_CHECKING:
    from ganger.cli.tasks import Wish
    from ganger.engine.engine import Engine

_NAME: Final = "condition"
_WORDS: Final = (
    "file", "gone", "port", "url", "shell", "expression", "at", "delay", "status", "timeout", "every", "deadline",
)  # fmt: skip
C = TypeVar("C", bound=Callable[..., object])

_QUESTION: Final = (
    take_store,
    take_json,
    click.option("--file", metavar="PATH", help="Is this file there?"),
    click.option("--gone", metavar="PATH", help="Is this file gone?"),
    click.option("--port", metavar="HOST:PORT", help="Is a connection accepted?"),
    click.option("--url", help="Is a GET answered with 2xx, or with --status?"),
    click.option("--status", metavar="N", help="With --url: the status that counts."),
    click.option("--shell", metavar="SCRIPT", help="Does this bash script exit with 0?"),
    click.option("--timeout", metavar="DURATION", help="With --shell: more than so long is a no (30s)."),
    click.option("--expression", metavar="TEXT", help="Is this true of the --after tasks: 'parent.result == 0'?"),
    click.option("--at", metavar="TIME", help="Is it this time, or later: 2027-01-31T08:00?"),
    click.option("--delay", metavar="DURATION", help="Is it so long after the --after tasks, or after now?"),
)
_REST: Final = (
    click.option("--then", "script", metavar="SCRIPT", help="A bash script that follows a yes; or a command after --."),
    click.option("--else", "other", metavar="SCRIPT", help="A bash script that follows if it is not so."),
    click.option("--after", "parents", multiple=True, metavar="ID[:ON]", help="Ask when this task has ended."),
    click.option("--queue", default="default", show_default=True, metavar="QUEUE", help="The queue of all of them."),
    click.option("--label", "labels", multiple=True, help="Ask, and run, only on nodes with this label."),
    click.argument("command", nargs=-1, type=click.UNPROCESSED),
)
_PATIENCE: Final = (
    click.option("--every", metavar="DURATION", help="Ask so often (1s)."),
    click.option("--deadline", metavar="DURATION", help="Then it is in vain: it fails, or --else goes on."),
)


def _take(*options: Callable[[Any], Any]) -> Callable[[C], C]:
    def add(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.command("if", context_settings={"allow_interspersed_args": False})
@_take(*_QUESTION, *_REST)
def ask_once(store: str | None, as_json: bool, **given: Any) -> None:
    """Ask once, and choose: ganger if --file PATH --then SCRIPT --else SCRIPT.

    Alone it prints its id, for `submit --after ID:then`. What follows it is drawn with it, and all are one group.
    """
    _run(store, as_json, given, wait=False)


@click.command("until", context_settings={"allow_interspersed_args": False})
@_take(*_QUESTION, *_PATIENCE, *_REST)
def until(store: str | None, as_json: bool, **given: Any) -> None:
    """Wait until it is so, then go on: ganger until --file PATH -- COMMAND ARGUMENTS.

    Alone it prints its id, for `submit --after ID`. What follows it is drawn with it, and all are one group.
    """
    _run(store, as_json, given, wait=True)


def _run(store: str | None, as_json: bool, given: dict[str, Any], *, wait: bool) -> None:
    from ganger.cli.branches import join_branches
    from ganger.cli.graph import print_graph, submit_graph

    if given["command"] and given["script"] is not None:
        raise click.UsageError("give either a command after -- or a script with --then")
    wishes = join_branches(_wish_all(given, wait), {})
    if len(wishes) == 1:
        _print(run_engine(store, lambda engine: _submit(engine, wishes[_NAME], given["queue"]), makes=True), as_json)
        return
    title = wishes[_NAME].description or _NAME
    ids = run_engine(store, lambda engine: submit_graph(engine, wishes, given["queue"], title), makes=True)
    print_graph(wishes, ids, title, as_json=as_json)


def _print(number: int, as_json: bool) -> None:
    if as_json:
        print_json({"id": number})
    else:
        click.echo(number)


def _wish_all(given: dict[str, Any], wait: bool) -> "dict[str, Wish]":
    """The condition, and what follows it."""
    from ganger.cli.tasks import Wish

    labels = list(given["labels"])
    wishes = {_NAME: _wish(given, labels, wait)}
    if given["command"] or given["script"] is not None:
        words = {"command": list(given["command"]), "shell": given["script"], "requires": labels}
        wishes["then"] = Wish(**words, after=[f"{_NAME}:then"], description="then")
    if given["other"] is not None:
        wishes["else"] = Wish(shell=given["other"], after=[f"{_NAME}:else"], requires=labels, description="else")
    return wishes


def _wish(given: dict[str, Any], labels: list[str], wait: bool) -> "Wish":
    from pathlib import Path

    from ganger.cli.questions import read_safely, say_question
    from ganger.cli.tasks import Wish

    words = {word: given[word] for word in _WORDS if given.get(word) is not None}
    spec = read_safely(words, wait=wait, folder=str(Path.cwd()))
    return Wish(condition=spec, after=list(given["parents"]), requires=labels, description=say_question(spec))


async def _submit(engine: "Engine", wish: "Wish", queue: str) -> int:
    from ganger.cli.tasks import find_queue, make_task

    made = await engine.submit([make_task(wish, int((await find_queue(engine, queue)).id), {})])
    return int(made.ids[0])
