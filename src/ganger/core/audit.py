"""The operator's audit log: each line is chained to the one before by its hash, so none can be changed or cut out."""

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple

from ganger.core.clock import Wall
from ganger.core.errors import AuditBroken
from ganger.core.ids import Position

START = b"\0" * 32


class Act(NamedTuple):
    """What an operator did, before it has a place in the log. `detail` is a JSON text."""

    who: str
    action: str
    detail: str = "{}"


class AuditLine(NamedTuple):
    position: Position
    at: Wall
    who: str
    action: str
    detail: str
    hash: bytes


def chain(before: bytes, position: int, at: int, act: Act) -> bytes:
    """The hash of a line. JSON quotes every newline, so no text can pose as two lines."""
    line = json.dumps([position, at, act.who, act.action, act.detail], separators=(",", ":"))
    return hashlib.sha256(before + line.encode()).digest()


def verify(lines: Iterable[AuditLine], before: bytes = START, position: int = 0) -> tuple[int, bytes]:
    """How many lines follow `position` unbroken, and the last hash; AuditBroken names the first that does not fit."""
    count = 0
    for line in lines:
        position += 1
        expected = chain(before, position, line.at, Act(line.who, line.action, line.detail))
        if line.position != position or line.hash != expected:
            raise AuditBroken(f"line {position} of the audit log was changed or is missing", position=position)
        before, count = expected, count + 1
    return count, before
