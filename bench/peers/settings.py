"""How each peer is set up; printed with the figures, so it imports nothing of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RawSettings:
    page_size: int = 4096
    cache_kib: int = 65536
    journal_mode: str = "wal"
    synchronous: str = "full"
    wal_autocheckpoint: int = 4000


@dataclass(frozen=True, slots=True)
class HueySettings:
    """One thread is its fastest on SQLite: the storage has one connection behind a lock, and more only wait for it."""

    fsync: bool = True
    journal_mode: str = "wal"
    cache_mb: int = 64
    busy_timeout: float = 60.0
    results: bool = False
    workers: int = 1
    worker_type: str = "thread"
    poll_delay: float = 0.001


@dataclass(frozen=True, slots=True)
class PgQueuerSettings:
    """One connection for the queue manager, autovacuum tuned by `optimize_autovacuum`, as its guide advises."""

    driver: str = "asyncpg"
    loop: str = "uvloop"
    batch_size: int = 100
    enqueue_chunk: int = 1000
    durability: str = "durable"
    optimize_autovacuum: bool = True


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """A server with its memory and its checkpoints sized for a write load, and every promise of durability on."""

    parameters: Mapping[str, str] = field(
        default_factory=lambda: {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "shared_buffers": "1GB",
            "wal_buffers": "16MB",
            "max_wal_size": "4GB",
            "checkpoint_timeout": "30min",
            "jit": "off",
        }
    )
