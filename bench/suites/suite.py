"""What a suite is: loads to run in rounds, and the goals that their figures answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from bench.goals import Goal
from bench.rounds import Derived, Load


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a suite's chart: a row for each key; `upper` is drawn as the far end of the row of that key."""

    title: str
    better: Literal["more", "less"]
    keys: tuple[str, ...]
    upper: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    settings: Mapping[str, Any]
    loads: tuple[Load, ...]
    goals: tuple[Goal, ...]
    derived: tuple[Derived, ...] = ()
    panels: tuple[Panel, ...] = ()


OpenSuite = Callable[[Path, bool], AbstractContextManager[Suite]]
"""Opens a suite with its servers beside a folder, at full or (true) quick size; leaving it stops the servers."""


def name_peer(package: str, title: str, manner: str) -> str:
    """As the tables show it; one that is not installed has no version."""
    try:
        return f"{title} {version(package)} {manner}"
    except PackageNotFoundError:
        return f"{title} {manner}"
