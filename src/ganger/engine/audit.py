"""What operators did: how an act is written down, and how the whole log is checked."""

import json
from typing import NamedTuple

from ganger.core import names
from ganger.core.audit import START, Act
from ganger.core.audit import verify as verify_lines
from ganger.core.errors import Field
from ganger.core.ids import Position
from ganger.engine.store import Store

_PAGE = 1_000


class Verified(NamedTuple):
    """So many lines hang together; `head` is the last hash, to be kept elsewhere and compared."""

    lines: int
    head: bytes


def act(by: str, action: str, **detail: Field) -> Act:
    """An act, to be stored in the same step as what it did."""
    return Act(names.check("operator", by), action, json.dumps(detail, separators=(",", ":"), sort_keys=True))


async def verify(store: Store) -> Verified:
    """Walk through the whole log; AuditBroken names the first line that was changed or is missing."""
    lines, head = 0, START
    while page := await store.audit(Position(lines), _PAGE):
        count, head = verify_lines(page, head, lines)
        lines += count
    return Verified(lines, head)
