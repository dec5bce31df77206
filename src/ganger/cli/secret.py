"""`ganger secret`: values that tasks name and only the node that runs them knows."""

import sys
from typing import TYPE_CHECKING

import click

from ganger.cli.opening import take_json, take_store
from ganger.cli.printing import print_json, tell

if TYPE_CHECKING:
    from ganger.assembly.secrets import SecretFolder

take_name = click.argument("name", metavar="SECRET")


@click.group()
def secret() -> None:
    """Keep the secrets of the nodes of this machine: tasks name them as secret:NAME."""


def _open(store: str | None) -> "SecretFolder":
    from pathlib import Path

    from ganger.assembly.secrets import locate_secrets
    from ganger.assembly.settings import load
    from ganger.core.errors import BadInput

    found = locate_secrets(load(Path.cwd(), store=store))
    if found is None:
        raise BadInput("a store without a file has no secrets beside it: name a folder in the setting secrets")
    return found


@secret.command("set")
@take_store
@take_name
def set_value(store: str | None, name: str) -> None:
    """Keep a value, which is asked for, or read from standard input. It holds from the next attempt on."""
    _open(store).put(name, _read_value(name))
    click.echo(name)


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"the value of {name}", hide_input=True))
    return sys.stdin.read().removesuffix("\n")


@secret.command("ls")
@take_store
@take_json
def list_names(store: str | None, as_json: bool) -> None:
    """List the names of the secrets; their values are never shown."""
    names = _open(store).names()
    for name in names:
        print_json({"secret": name}) if as_json else click.echo(name)
    if not names and not as_json:
        tell("no secrets yet: see `ganger secret set --help`")


@secret.command("rm")
@take_store
@take_name
def remove(store: str | None, name: str) -> None:
    """Remove a secret; what runs keeps the value that it was given."""
    _open(store).remove(name)
    click.echo(name)
