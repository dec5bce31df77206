"""What MongoDB has that Python has not: object ids, and dates that are milliseconds since 1970."""

from typing import Any, Final

import bson
from bson import DatetimeMS, Int64, ObjectId
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


__all__ = ["CODEC", "DatetimeMS", "ObjectId", "date", "is_kept", "object_id", "wall_of"]
