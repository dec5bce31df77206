"""What `ganger doctor` says of a store in PostgreSQL: schema, clocks, notifications, dead rows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ganger.cli.findings import Finding
from ganger.cli.words import say_bytes, say_duration

if TYPE_CHECKING:
    from ganger.databases.postgres.examining import Examined, Table

_SKEW: Final = 2_000
"""Milliseconds: by so much clocks may differ without anybody noticing; beyond, times in lists and due times do."""

_DEAD: Final = 100_000
_OPEN: Final = 3_600
"""Seconds: a transaction that is open for longer keeps dead rows of all tables from being cleared away."""


def examine_postgres(url: str) -> list[Finding]:
    """Look at the server that the URL names. StoreError if it cannot be reached."""
    import asyncio

    from ganger.databases.postgres.examining import examine
    from ganger.runtime.clock import SystemClock

    return list(judge(asyncio.run(examine(url, SystemClock()))))


def judge(found: "Examined") -> Iterator[Finding]:
    yield Finding("schema", True, f"migration {found.newest}, PostgreSQL {found.version}")
    yield Finding("fsync", found.fsync, "on" if found.fsync else "off: what is acknowledged may be lost with the power")
    yield _judge_clock(found)
    yield _judge_notifications(found.heard)
    yield _judge_vacuum(found)
    yield _judge_bloat(found.tables)


def _judge_clock(found: "Examined") -> Finding:
    off = abs(found.ahead)
    side = "ahead of" if found.ahead > 0 else "behind"
    seen = f"the server is {say_duration(off)} {side} this machine, give or take {found.doubt} ms"
    return Finding("clocks", off - found.doubt <= _SKEW, seen)


def _judge_notifications(heard: int | None) -> Finding:
    if heard is not None:
        return Finding("notifications", True, f"heard after {heard} ms")
    advice = "is a pooler in between? name the server itself; until then nodes look once a second"
    return Finding("notifications", False, f"none comes through: {advice}")


def _judge_vacuum(found: "Examined") -> Finding:
    if not found.autovacuum:
        return Finding("vacuum", False, "autovacuum is off: the tables grow without end")
    oldest = found.oldest
    if oldest is None or oldest.seconds < _OPEN:
        return Finding("vacuum", True, "autovacuum is on, and no transaction is in its way")
    who = f"process {oldest.pid}" + (f" ({oldest.program})" if oldest.program else "")
    since = say_duration(oldest.seconds * 1_000)
    return Finding("vacuum", False, f"a transaction of {who} is open for {since}: end it, it keeps dead rows in place")


def _judge_bloat(tables: "tuple[Table, ...]") -> Finding:
    """Much more dead than alive is bloat: a table through which tasks pass has some dead rows at any moment."""
    bloated = [table for table in tables if table.dead > max(_DEAD, 2 * table.live)]
    size = say_bytes(sum(table.size for table in tables))
    if not bloated:
        return Finding(
            "bloat", True, f"{size} in {len(tables)} tables, {sum(table.dead for table in tables)} dead rows"
        )
    said = ", ".join(f"{table.name} has {table.dead} dead rows and {table.live} live ones" for table in bloated[:5])
    return Finding("bloat", False, f"{said}: see why autovacuum does not come through, then VACUUM them")
