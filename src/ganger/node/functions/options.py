"""How a node runs functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ganger.node.functions.messages import Mode


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """`folder` is the node's own: notes and output are there. `paths` come first where modules are looked for.

    `allow` are patterns of functions that are called although no app has declared them. `environment` is all that a
    process of functions finds in its own.

    `mode` is where a function runs that is not async and whose task does not say where.

    A warm process is replaced after so many tasks (`recycle_after`) or when it has so many bytes (`recycle_bytes`).
    `threads` and `coroutines` are how many run at once in the process of that mode. `window`: the most jobs that lie in
    one process for each that it executes at once; how many do depends on how long those of their name take: see
    `node.lengths`. `cap` is the most bytes that a stream keeps. `level` is the least that functions log by
    `logging`. `django` names the settings of the project that they are part of, as DJANGO_SETTINGS_MODULE does.
    `files` is how many files a process may have open; None: as many as the node's.
    """

    folder: Path
    mode: Mode = Mode.PROCESS
    processes: int = 1
    threads: int = 8
    coroutines: int = 100
    paths: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    recycle_after: int | None = 1_000_000
    recycle_bytes: int | None = 1 << 30
    window: int = 1024
    cap: int = 1 << 30
    level: str = "info"
    django: str = ""
    files: int | None = None

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"
