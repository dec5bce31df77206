"""`ganger up`: how the functions of a node run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ganger.cli.words import read_size

if TYPE_CHECKING:
    from ganger.assembly.settings import Settings
    from ganger.node.functions.options import FunctionOptions

_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(("process", "thread", "loop")),
        help="Where functions run whose task says nothing; async ones on the loop.  [default: process]",
    ),
    click.option("--threads", type=click.IntRange(1, 10_000), metavar="N", help="So many at once in threads (8)."),
    click.option(
        "--coroutines", type=click.IntRange(1, 100_000), metavar="N", help="So many at once on the loop (100)."
    ),
    click.option(
        "--recycle-after", type=click.IntRange(1), metavar="N", help="Replace a warm process after N tasks (1000000)."
    ),
    click.option(
        "--recycle-bytes", type=read_size, metavar="SIZE", help="Replace one that has grown to so much: 500MB (1GiB)."
    ),
    click.option(
        "--log-level",
        type=click.Choice(("debug", "info", "warning", "error", "critical"), case_sensitive=False),
        help="The least that functions log by `logging`.  [default: info]",
    ),
    click.option("--django", metavar="MODULE", help="Functions are of this project (default: DJANGO_SETTINGS_MODULE)."),
)


def take_functions(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that `make_functions` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_functions(given: dict[str, Any], settings: "Settings") -> "FunctionOptions":
    """How functions run, as flags and settings say; what they leave out is as usual. The folder is the node's."""
    from pathlib import Path

    from ganger.assembly.logs import check_level
    from ganger.assembly.settings import find_django
    from ganger.node.functions.messages import Mode
    from ganger.node.functions.options import FunctionOptions

    names = ("threads", "coroutines", "recycle_after", "recycle_bytes")
    said = {name: given[name] for name in names if given[name] is not None}
    return FunctionOptions(
        Path(),
        mode=Mode[(given["mode"] or "process").upper()],
        level=check_level(settings),
        django=find_django(settings),
        **said,
    )
