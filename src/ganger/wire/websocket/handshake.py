"""The opening of a websocket: what the request must say, and what it is answered."""

import base64
import binascii
import hashlib
from collections.abc import Collection, Mapping
from typing import Final

from ganger.core.errors import BadInput

VERSION: Final = b"13"
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
_ACCEPTED: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: %b\r\n"
    b"%b\r\n"
)


def choose_protocol(headers: Mapping[bytes, bytes], spoken: Collection[bytes]) -> bytes | None:
    """The first of the subprotocols that the client offers and that is spoken here."""
    offered = (word.strip() for word in headers.get(b"sec-websocket-protocol", b"").split(b","))
    return next((word for word in offered if word in spoken), None)


def answer_handshake(headers: Mapping[bytes, bytes], protocol: bytes | None = None) -> bytes:
    """The head of the answer that opens the websocket. BadInput if the request is not one for it."""
    if headers.get(b"sec-websocket-version") != VERSION:
        raise BadInput("websockets are spoken here in version 13: send Sec-WebSocket-Version: 13")
    key = headers.get(b"sec-websocket-key", b"")
    if not _is_key(key):
        raise BadInput("Sec-WebSocket-Key is not 16 bytes in base64")
    accepted = base64.b64encode(hashlib.sha1(key + _MAGIC, usedforsecurity=False).digest())
    return _ACCEPTED % (accepted, b"" if protocol is None else b"sec-websocket-protocol: %b\r\n" % protocol)


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
