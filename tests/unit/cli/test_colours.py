"""Colours on a terminal: each is readable on a dark ground and on a light one."""

import pytest

from ganger.assembly.settings import count_colours
from ganger.cli import colours
from ganger.cli.colours import Tone

_STEPS = (0, 95, 135, 175, 215, 255)
TONES = [value for value in vars(colours).values() if isinstance(value, Tone)]


def _lightness(colour: int) -> float:
    """The relative luminance of a colour of the palette of 256, as WCAG reckons it."""
    if colour >= 232:
        parts = (8 + 10 * (colour - 232),) * 3
    else:
        place = colour - 16
        parts = (_STEPS[place // 36], _STEPS[place // 6 % 6], _STEPS[place % 6])
    red, green, blue = (c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("tone", TONES, ids=lambda tone: str(tone.colour))
def test_a_colour_is_readable_on_black_and_on_white(tone: Tone) -> None:
    assert tone.colour >= 16, "the first sixteen are what the theme makes of them"
    light = _lightness(tone.colour)

    assert (light + 0.05) / 0.05 >= 4
    assert 1.05 / (light + 0.05) >= 4


@pytest.mark.parametrize("tone", TONES, ids=lambda tone: str(tone.colour))
def test_with_few_colours_none_is_used_that_a_ground_swallows(tone: Tone) -> None:
    assert tone.plain.get("fg") in {None, "green", "red", "magenta"}


@pytest.mark.parametrize(
    ("environment", "known"),
    [
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 256),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, 0),
        ({"TERM": "dumb"}, 0),
    ],
)
def test_a_terminal_is_shown_as_many_colours_as_it_knows(environment: dict[str, str], known: int) -> None:
    assert count_colours(environment) == known
