"""Colours for a person at a terminal who did not ask for none, each readable on a dark ground and on a light one.

A terminal does not say what its ground is. Of its own sixteen colours most are lost on one of the two, yellow on white
and blue on black first. So these are colours of the fixed palette of 256, of a middle lightness, which have about the
same contrast to black and to white; a test reckons it. Where a terminal knows only few colours, those serve that every
theme keeps apart from its ground.
"""

from typing import Any, Final, NamedTuple

import click


class Tone(NamedTuple):
    """A colour of the palette of 256, and how to say the same with few colours."""

    colour: int
    plain: dict[str, Any]


GOOD: Final = Tone(28, {"fg": "green"})
BAD: Final = Tone(161, {"fg": "red"})
BUSY: Final = Tone(31, {"bold": True})
TAKEN: Final = Tone(97, {"bold": True})
ODD: Final = Tone(130, {"fg": "magenta"})
FAINT: Final = Tone(243, {"dim": True})

_TONES: Final = {
    "succeeded": GOOD,
    "running": BUSY,
    "claimed": TAKEN,
    "held": ODD,
    "failed": BAD,
    "terminated": BAD,
    "orphaned": BAD,
    "cancelled": FAINT,
    "active": GOOD,
    "draining": ODD,
    "unready": ODD,
    "silent": BAD,
    "lost": BAD,
}


def paint_status(cell: str) -> str:
    """The cell of a status or of a node's state, with its code, progress and padding, in the colour of its word."""
    word = cell.strip().partition("(")[0].partition(" ")[0]
    tone = _TONES.get(word)
    return cell if tone is None else paint(cell, tone)


def paint_failures(cell: str) -> str:
    """A number of failures: none is nothing to look at."""
    return cell if cell.strip() in {"", "-", "0"} else paint(cell, BAD)


def paint(text: str, tone: Tone) -> str:
    """The text in this colour, as well as the terminal knows it."""
    from ganger.assembly.settings import count_colours

    colours = count_colours()
    if not colours:
        return text
    return click.style(text, fg=tone.colour) if colours > 16 else click.style(text, **tone.plain)
