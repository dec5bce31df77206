"""What MongoDB has that Python has not: object ids, and dates that are milliseconds since 1970."""

from collections.abc import Mapping
from typing import Any, Final

import bson
from bson import DatetimeMS, Int64, ObjectId, json_util
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.errors import BSONError


class _WholeNumber(TypeDecoder):
    """A large number is an `int` like any other."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        return int(value)


CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, type_registry=TypeRegistry([_WholeNumber()])
)
"""Dates stay numbers: a stranger's may lie where Python has none."""
_JSON: Final = json_util.JSONOptions(
    json_mode=json_util.JSONMode.RELAXED, datetime_conversion=DatetimeConversion.DATETIME_MS
)


def date(wall: int) -> DatetimeMS:
    return DatetimeMS(wall)


def wall_of(value: Any, otherwise: int) -> int:
    """The milliseconds of a date; something else, where a stranger wrote something else."""
    return int(value) if isinstance(value, DatetimeMS) else otherwise


def object_id(face: str) -> ObjectId:
    return ObjectId(face)


def is_kept(value: Any) -> bool:
    """Does a document keep this value as it is?"""
    try:
        return bool(bson.decode(bson.encode({"value": value}), CODEC)["value"] == value)
    except (BSONError, OverflowError, UnicodeEncodeError, RecursionError):
        return False


def to_json(document: Mapping[str, Any]) -> bytes:
    """A document as Extended JSON: what JSON has no type for says which one it has."""
    return json_util.dumps(document, json_options=_JSON, separators=(",", ":")).encode()


def from_json(body: bytes) -> dict[str, Any] | None:
    """The document again; None if it is none that can be stored."""
    try:
        found = json_util.loads(body.decode(), json_options=_JSON)
    except (ValueError, TypeError, BSONError, RecursionError, OverflowError):
        return None
    return found if isinstance(found, dict) and is_kept(found) else None


__all__ = [
    "CODEC",
    "DatetimeMS",
    "ObjectId",
    "date",
    "from_json",
    "is_kept",
    "object_id",
    "to_json",
    "wall_of",
]
