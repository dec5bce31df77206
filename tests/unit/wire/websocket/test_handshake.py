"""The opening of a websocket."""

import pytest

from ganger.core.errors import BadInput
from ganger.wire.websocket.handshake import answer_handshake

ASKED = {b"sec-websocket-version": b"13", b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ=="}


def test_the_answer_proves_that_the_request_was_read() -> None:
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer_handshake(ASKED)


@pytest.mark.parametrize(
    "wrong",
    [
        {b"sec-websocket-version": b"8"},
        {b"sec-websocket-key": b""},
        {b"sec-websocket-key": b"c2hvcnQ="},
        {b"sec-websocket-key": b"?"},
    ],
)
def test_a_request_that_is_none_is_refused(wrong: dict[bytes, bytes]) -> None:
    with pytest.raises(BadInput):
        answer_handshake({**ASKED, **wrong})
