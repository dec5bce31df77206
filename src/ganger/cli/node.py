"""`ganger node`: one that runs tasks here and serves nothing, and what an operator does to nodes."""

from typing import Any, Final

import click

from ganger.cli.drain import drain
from ganger.cli.nodes import nodes
from ganger.cli.overview import Brief
from ganger.cli.restart import restart
from ganger.cli.up import up

_OF_SERVERS: Final = frozenset({"no_server", "listen", "insecure"})
_RUN: Final = "run"


class Nodes(Brief):
    """Options without a command are those of a node that is to run here: `ganger node --url URL`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        runs = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, [_RUN, *args] if runs else args)


@click.group(cls=Nodes)
def node() -> None:
    """Run a node, list those that are here, empty one before it is stopped, or start one anew.

    Options without a command run a node: `ganger node --url URL`.
    """


def _run(**given: Any) -> None:
    """Run tasks here and serve nothing, as `ganger up --no-server` does."""
    click.get_current_context().invoke(up, **given, no_server=True)


node.add_command(
    click.Command(
        _RUN, callback=_run, help=_run.__doc__, params=[part for part in up.params if part.name not in _OF_SERVERS]
    )
)
node.add_command(nodes, "ls")
node.add_command(drain)
node.add_command(restart)
