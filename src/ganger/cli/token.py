"""`ganger token`: who may use the HTTP API, and for what."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import refuse_remote, take_json, take_store
from ganger.cli.printing import print_json, print_table, tell
from ganger.cli.words import read_duration, say_time

if TYPE_CHECKING:
    from ganger.assembly.tokens import Kept, TokenFile

_COLUMNS = ("ID", "NAME", "SCOPES", "CREATED", "EXPIRES")


@click.group()
def token() -> None:
    """Make, list and remove the tokens of the HTTP API."""


def _open(store: str | None) -> "TokenFile":
    from pathlib import Path

    from ganger.assembly.location import locate_own
    from ganger.assembly.server import keep_tokens
    from ganger.assembly.settings import load
    from ganger.core.errors import BadInput
    from ganger.runtime.clock import SystemClock

    refuse_remote(store, "a list of tokens")
    found = locate_own(load(Path.cwd(), store=store))
    if found is None:
        raise BadInput("a store without a file keeps its tokens in its own process; use the one that its start tells")
    return keep_tokens(found.database, SystemClock())


@token.command()
@take_store
@take_json
@click.option(
    "--scope", "scopes", multiple=True, required=True, help="read, submit[:QUEUE], work[:QUEUE], cancel, admin."
)
@click.option("--lifetime", type=read_duration, metavar="DURATION", help="It expires after so long (default: never).")
@click.option("--rate", type=float, metavar="N", help="At most N requests a second (default: as the setting says).")
@click.argument("name")
def add(
    store: str | None, as_json: bool, name: str, *, scopes: tuple[str, ...], lifetime: int | None, rate: float | None
) -> None:
    """Make a token and print it: it is told this once, and kept as a hash."""
    made = _open(store).add(name, scopes, lifetime, rate)
    if as_json:
        print_json({"token": made.token, **_view(made.kept)})
    else:
        click.echo(made.token)
        tell("this is the only time that it is shown")


@token.command("ls")
@take_store
@take_json
def list_tokens(store: str | None, as_json: bool) -> None:
    """List the tokens: their names, scopes and ends."""
    tokens = _open(store).all()
    if as_json:
        for kept in tokens:
            print_json(_view(kept))
    elif tokens:
        print_table(_COLUMNS, [_row(kept) for kept in tokens])
    else:
        tell("no tokens; the first start of a server makes the administrator's")


@token.command("rm")
@take_store
@click.argument("name")
def remove(store: str | None, name: str) -> None:
    """Remove a token, by its name or id. A server that runs stops serving it within a second or two."""
    click.echo(_open(store).remove(name).name)


def _view(kept: "Kept") -> dict[str, Any]:
    times = {"created": kept.created, "expires": kept.expires}
    return {"id": kept.id, "name": kept.name, "scopes": kept.scopes, **times, "rate": kept.rate}


def _row(kept: "Kept") -> tuple[str, ...]:
    return kept.id, kept.name, " ".join(kept.scopes), say_time(kept.created), say_time(kept.expires) or "never"
