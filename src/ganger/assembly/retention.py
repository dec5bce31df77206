"""How long what is over is kept, as the settings want it."""

from typing import Final

from ganger.assembly.settings import Settings
from ganger.assembly.values import read_size, read_time
from ganger.engine.upkeep import Retention

_FOREVER: Final = "forever"
_SHORTEST: Final = 60_000
"""Milliseconds: whoever waits for a task must have the time to see that it has ended."""


def read_retention(settings: Settings) -> Retention:
    """BadInput names the setting that is wrong."""
    kept, output, disbatch = settings.keep, settings.keep_output, settings.keep_disbatch
    return Retention(
        None if kept == _FOREVER else read_time("keep", kept, _SHORTEST),
        None if output == _FOREVER else read_size("keep_output", output),
        strangers=None if disbatch == _FOREVER else read_time("keep_disbatch", disbatch, _SHORTEST),
    )
