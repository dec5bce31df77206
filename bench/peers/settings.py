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


@dataclass(frozen=True, slots=True)
class MongoSettings:
    """A single server with its journal on, as it is unless told otherwise."""

    options: Mapping[str, str] = field(
        default_factory=lambda: {
            "wiredTigerCacheSizeGB": "1",
            "setParameter": "diagnosticDataCollectionEnabled=false",
        }
    )


@dataclass(frozen=True, slots=True)
class RawMongoSettings:
    """Plain pymongo, each write acknowledged by a majority and in the journal."""

    threads: int = 4
    write_concern: str = "w=majority, j=true"


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """A server that keeps nothing on disk, reached by a unix socket: its fastest, and not durable."""

    parameters: Mapping[str, str] = field(default_factory=lambda: {"save": "", "appendonly": "no"})


@dataclass(frozen=True, slots=True)
class CelerySettings:
    """A process per core, and for many short tasks a large prefetch, as its guide to optimizing advises."""

    pool: str = "prefork"
    concurrency: int = 2
    worker_prefetch_multiplier: int = 128
    task_ignore_result: bool = True
    worker_enable_remote_control: bool = False
    worker_disable_rate_limits: bool = True


@dataclass(frozen=True, slots=True)
class DramatiqSettings:
    """Its default number of threads."""

    processes: int = 1
    threads: int = 8
    prefetch: int = 1000


@dataclass(frozen=True, slots=True)
class RqSettings:
    """The worker without a fork for each job, which its guide to performance advises for short ones."""

    worker_class: str = "rq.worker.SimpleWorker"
    workers: int = 2
    result_ttl: int = 0


@dataclass(frozen=True, slots=True)
class HueyRedisSettings:
    results: bool = False
    blocking: bool = True
    workers: int = 4
    worker_type: str = "thread"


@dataclass(frozen=True, slots=True)
class TaskiqSettings:
    """uvloop is taken by itself where it is installed."""

    broker: str = "ListQueueBroker"
    workers: int = 1
    max_async_tasks: int = 100
    max_prefetch: int = 100
    ack_type: str = "when_received"


@dataclass(frozen=True, slots=True)
class ProcrastinateSettings:
    """psycopg with its compiled part."""

    connector: str = "PsycopgConnector"
    concurrency: int = 10
    delete_jobs: str = "successful"
    enqueue_chunk: int = 1000


@dataclass(frozen=True, slots=True)
class GangerSettings:
    """One slot is one warm process for functions; the worker does the upkeep, so that producers need not."""

    worker: str = "ganger up"
    slots: int = 1
    store: str = "sqlite"
    upkeep_in_producers: bool = False
    submit_chunk: int = 1000
