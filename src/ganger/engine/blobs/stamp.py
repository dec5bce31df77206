"""The name of one copy of content in a bucket: when it came, on both clocks, and something that no other copy has."""

import re
import struct
from typing import Final, NamedTuple

from ganger.core.clock import Moment, Wall
from ganger.engine.blob import Birth

_FIELDS: Final = struct.Struct(">QQ32s16s")
_TEXT: Final = re.compile(rf"[0-9a-f]{{{2 * _FIELDS.size}}}", re.ASCII)
TOKEN_BYTES: Final = 16


class Stamp(NamedTuple):
    """Its text sorts by the wall clock, so that of several copies the last one is the newest."""

    birth: Birth
    token: bytes

    def encode(self) -> str:
        born = self.birth
        return _FIELDS.pack(max(born.wall, 0), max(born.now, 0), born.boot, self.token).hex()

    def behind(self, others: "list[Stamp]") -> "Stamp":
        """The same, but so that it sorts behind all of these, whatever the wall clock did meanwhile."""
        latest = max((other.birth.wall for other in others), default=Wall(-1))
        wall = Wall(max(self.birth.wall, latest + 1))
        return Stamp(Birth(wall, self.birth.now, self.birth.boot), self.token)


def read_stamp(text: str) -> Stamp | None:
    """What a name says; None if a stranger chose it."""
    if not _TEXT.fullmatch(text):
        return None
    wall, now, boot, token = _FIELDS.unpack(bytes.fromhex(text))
    return Stamp(Birth(Wall(wall), Moment(now), boot), token)
