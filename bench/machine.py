"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

_MEMORY_FILESYSTEMS = {"tmpfs", "ramfs"}


def describe_machine(place: Path) -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "cpu": _name_cpu(),
        "cpus": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "python": platform.python_version(),
        "sqlite_apsw": apsw.sqlite_lib_version(),
        "sqlite_stdlib": sqlite3.sqlite_version,
        "filesystem": name_filesystem(place, _read("/proc/self/mounts")),
        "fsync_ms": round(time_fsync(place) * 1000, 3),
        "load_before": round(os.getloadavg()[0], 2),
    }


def has_no_disk(machine: Mapping[str, Any]) -> bool:
    return machine["filesystem"] in _MEMORY_FILESYSTEMS


def _read(path: str) -> str:
    """What Linux tells about itself; other systems have no such file."""
    return Path(path).read_text() if Path(path).exists() else ""


def _name_cpu() -> str:
    lines = _read("/proc/cpuinfo").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def name_filesystem(place: Path, mounts: str) -> str:
    """The type of the innermost mount that holds the place; of two on one point the later hides the earlier."""
    holding = [(len(point), kind) for point, kind in _read_mounts(mounts) if place.is_relative_to(point)]
    deepest = max((length for length, _ in holding), default=0)
    return [kind for length, kind in holding if length == deepest][-1] if holding else "unknown"


def _read_mounts(mounts: str) -> list[tuple[str, str]]:
    fields = [line.split() for line in mounts.splitlines()]
    return [(row[1].replace("\\040", " "), row[2]) for row in fields]


def time_fsync(place: Path, times: int = 100) -> float:
    """The median time of an append of 4 KiB made durable: what every durable figure pays for."""
    path = place / "fsync"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        return statistics.median(_append(descriptor) for _ in range(times))
    finally:
        os.close(descriptor)
        path.unlink()


def _append(descriptor: int) -> float:
    os.write(descriptor, bytes(4096))
    began = time.perf_counter()
    os.fsync(descriptor)
    return time.perf_counter() - began
