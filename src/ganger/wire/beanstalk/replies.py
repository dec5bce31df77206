"""What beanstalkd says, byte for byte."""

from collections.abc import Iterable, Sequence
from typing import Final

OUT_OF_MEMORY: Final = b"OUT_OF_MEMORY\r\n"
INTERNAL_ERROR: Final = b"INTERNAL_ERROR\r\n"
BAD_FORMAT: Final = b"BAD_FORMAT\r\n"
UNKNOWN_COMMAND: Final = b"UNKNOWN_COMMAND\r\n"
EXPECTED_CRLF: Final = b"EXPECTED_CRLF\r\n"
JOB_TOO_BIG: Final = b"JOB_TOO_BIG\r\n"
DRAINING: Final = b"DRAINING\r\n"
DEADLINE_SOON: Final = b"DEADLINE_SOON\r\n"
TIMED_OUT: Final = b"TIMED_OUT\r\n"
DELETED: Final = b"DELETED\r\n"
NOT_FOUND: Final = b"NOT_FOUND\r\n"
RELEASED: Final = b"RELEASED\r\n"
BURIED: Final = b"BURIED\r\n"
TOUCHED: Final = b"TOUCHED\r\n"
KICKED: Final = b"KICKED\r\n"
NOT_IGNORED: Final = b"NOT_IGNORED\r\n"
PAUSED: Final = b"PAUSED\r\n"


def inserted(job: int) -> bytes:
    return b"INSERTED %d\r\n" % job


def using(tube: str) -> bytes:
    return b"USING %b\r\n" % tube.encode()


def watching(tubes: int) -> bytes:
    return b"WATCHING %d\r\n" % tubes


def kicked(jobs: int) -> bytes:
    return b"KICKED %d\r\n" % jobs


def reserved(job: int, body: bytes) -> bytes:
    return b"RESERVED %d %d\r\n%b\r\n" % (job, len(body), body)


def found(job: int, body: bytes) -> bytes:
    return b"FOUND %d %d\r\n%b\r\n" % (job, len(body), body)


def head_of(word: str, job: int, size: int) -> bytes:
    """What comes before a body that is sent in pieces; `\\r\\n` follows it."""
    return b"%b %d %d\r\n" % (word.encode(), job, size)


def tell_fields(fields: Iterable[tuple[str, object]]) -> bytes:
    """A statistic: a name and a value in each line. A value is written as it is, so a text brings its own quotes."""
    return _tell(f"{name}: {value}" for name, value in fields)


def tell_list(names: Sequence[str]) -> bytes:
    return _tell(f"- {name}" for name in names)


def _tell(lines: Iterable[str]) -> bytes:
    body = "\n".join(["---", *lines, ""]).encode()
    return b"OK %d\r\n%b\r\n" % (len(body), body)
