"""Huey on SQLite, every write synced before it is acknowledged."""

from __future__ import annotations

from pathlib import Path

from bench.contender import Contender
from bench.contenders.huey import consume, make_send, make_submit
from bench.peers.huey import open_huey
from bench.peers.settings import HueySettings
from bench.place import find_place

_SETTINGS = HueySettings()
_DELAY = str(_SETTINGS.poll_delay)
_WORKERS = find_place().workers or _SETTINGS.workers

huey = open_huey(Path(find_place().folder or "/nonexistent"), _SETTINGS, fsync=_SETTINGS.fsync)

CONTENDER = Contender(
    consume("huey_sqlite", _WORKERS, _SETTINGS.worker_type, "-d", _DELAY, "-m", _DELAY, "-b", "1"),
    make_submit(huey),
    send=make_send(huey),
)
