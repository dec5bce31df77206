"""What a suite is: loads to run in rounds, and the goals that their figures answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.goals import Goal
from bench.rounds import Load


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    settings: Mapping[str, Any]
    loads: tuple[Load, ...]
    goals: tuple[Goal, ...]


OpenSuite = Callable[[Path, bool], AbstractContextManager[Suite]]
"""Opens a suite with its servers beside a folder, at full or (true) quick size; leaving it stops the servers."""
