"""What a request says: a form or JSON in its body, or what stands behind the `?`; names with a dot are options."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from ganger.core.errors import BadInput
from ganger.wire.disbatch.words import read_flag, read_whole
from ganger.wire.unreadable import UNREADABLE

FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
OPTIONS: Final = frozenset({".limit", ".skip", ".count", ".fields", ".terse", ".full", ".epoch", ".pretty"})
MOST_SKIPPED: Final = 100_000
_MOST_FIELDS: Final = 100


class Options(NamedTuple):
    """How tasks are told. `limit` None: all that match, if they are not too many. `fields` empty: all fields."""

    limit: int | None = None
    skip: int = 0
    counted: bool = False
    fields: frozenset[str] = frozenset()
    terse: bool = False
    full: bool = False
    epoch: bool = False
    pretty: bool | None = None


def read_body(kind: str, body: bytes, query: Mapping[str, str]) -> Any:
    """What was sent, by its content type; without one of the two, what the address says."""
    word = kind.partition(";")[0].strip().lower()
    if word == FORM:
        return _read_form(body)
    return _read_json(body) if word == JSON else dict(query)


def _read_json(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        return msgspec.json.decode(body)
    except UNREADABLE as error:
        raise BadInput(f"the body is not JSON: {error}") from None


def _read_form(body: bytes) -> dict[str, Any]:
    try:
        pairs = parse_qsl(body.decode(), True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadInput("the form is not UTF-8, or has too many fields") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        before = found.get(name)
        found[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return found


def part_options(said: Mapping[str, Any], limit: int) -> tuple[dict[str, Any], Options]:
    """The parameters, and apart from them the options."""
    given = {name: value for name, value in said.items() if name.startswith(".")}
    rest = {name: value for name, value in said.items() if name not in given}
    if unknown := sorted(set(given) - OPTIONS):
        raise BadInput(f"unknown option {unknown[0]!r:.40}; known are {', '.join(sorted(OPTIONS))}", param=unknown[0])
    return rest, _read_options(given, limit)


def _read_options(given: Mapping[str, Any], most: int) -> Options:
    return Options(
        _read_limit(given.get(".limit"), most),
        read_whole(".skip", given.get(".skip") or 0, MOST_SKIPPED),
        read_flag(".count", given.get(".count")),
        _read_fields(given.get(".fields")),
        read_flag(".terse", given.get(".terse")),
        read_flag(".full", given.get(".full")),
        read_flag(".epoch", given.get(".epoch")),
        read_flag(".pretty", given[".pretty"]) if ".pretty" in given else None,
    )


def _read_limit(value: Any, most: int) -> int | None:
    """0 is what it is in MongoDB: no limit."""
    number = read_whole(".limit", value or 0, (1 << 31) - 1)
    if number > most:
        raise BadInput(f"limit cannot exceed {most}", field=".limit")
    return number or None


def _read_fields(value: Any) -> frozenset[str]:
    if isinstance(value, str) and value:
        value = _read_json(value.encode())
    names = value or ()
    if isinstance(names, dict):
        names = [name for name, wanted in names.items() if wanted]
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise BadInput(".fields must be an array of names, or an object", field=".fields")
    return frozenset(names)


def demand_object(said: Any, complaint: str) -> dict[str, Any]:
    """What was said, if it is an object; else the complaint of the route."""
    if not isinstance(said, dict):
        raise BadInput(complaint)
    return said
