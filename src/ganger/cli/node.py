"""`ganger node`: what an operator does to nodes."""

import click

from ganger.cli.drain import drain
from ganger.cli.nodes import nodes
from ganger.cli.overview import Brief
from ganger.cli.restart import restart


@click.group(cls=Brief)
def node() -> None:
    """List nodes, empty one before it is stopped, or start one anew while its commands run on."""


node.add_command(nodes, "ls")
node.add_command(drain)
node.add_command(restart)
