"""Statuses in colours, for a person at a terminal who did not ask for none."""

from typing import Final

import click

_COLOURS: Final = {
    "succeeded": "green",
    "running": "cyan",
    "claimed": "cyan",
    "held": "yellow",
    "failed": "red",
    "terminated": "red",
    "orphaned": "red",
    "cancelled": "bright_black",
}


def paint_status(cell: str) -> str:
    """The cell of a status, with its code, progress and padding, in the colour of its word."""
    word = cell.strip().partition("(")[0].partition(" ")[0]
    colour = _COLOURS.get(word)
    return cell if colour is None or not _wanted() else click.style(cell, fg=colour)


def _wanted() -> bool:
    from ganger.assembly.settings import wants_colours

    return wants_colours()
