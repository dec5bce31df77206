"""The command `ganger`."""

import sys
from importlib.metadata import version

import click

from ganger.cli.audit import audit
from ganger.core.errors import GangerError


class Door(click.Group):
    """Tells an error of ours as one line on standard error, with its code, and exits with 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except GangerError as error:
            click.echo(f"ganger: {error.message} [{error.code}]", err=True)
            sys.exit(1)


@click.group(cls=Door)
@click.version_option(version("ganger"), prog_name="ganger")
def main() -> None:
    """Ganger gives every piece of work to a worker, watches it, and never loses it."""


main.add_command(audit)
