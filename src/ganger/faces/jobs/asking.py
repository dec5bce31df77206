"""Whether a worker takes its next job, it is asked while its result is on its way into the store.

When the result is about to be safe the disk has yet to be waited for, and the way to the worker and back takes as long.
What it answers is heard when the result is safe, and only then it is sent the next job.
"""

from enum import Enum
from typing import Final

from ganger.faces.http.streams import StreamSocket
from ganger.wire.jobs import messages
from ganger.wire.websocket import frames
from ganger.wire.websocket.frames import Opcode

_ASK: Final = frames.encode(Opcode.TEXT, messages.ASK_STATUS)


class Word(Enum):
    """What a worker was asked, and has said."""

    NONE = "it was not asked"
    ASKED = "it was asked"
    READY = "it is ready"
    MORE = "it is ready, and has said something else"


class Asking:
    """The question to one worker, and its early answer."""

    def __init__(self, socket: StreamSocket) -> None:
        self._socket = socket
        self._word = Word.NONE

    def ask(self) -> None:
        """Ask if the way is free; one who has gone is not asked. Does not raise: others are asked with it."""
        if self._socket.is_free:
            self._socket.send_now(_ASK)
            self._word = Word.ASKED

    def overhear(self, opcode: Opcode, data: bytes) -> bool:
        """A frame that came before the result was safe: True if it is the answer."""
        if self._word is Word.ASKED and opcode is Opcode.TEXT and messages.is_ready(data):
            self._word = Word.READY
            return True
        if self._word is Word.READY:
            self._word = Word.MORE
        return False

    def end(self) -> Word:
        """The result is safe: what is known by now. If nothing was asked, it is asked now if the way is free."""
        if self._word is Word.NONE:
            self.ask()
        word, self._word = self._word, Word.NONE
        return word
