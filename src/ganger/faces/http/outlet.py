"""What a connection writes to: writes of one turn of the loop go out as one, and nothing waits for ever for a reader.

The server writes the head and the body of an answer apart; each write is a system call, and those cost more than all
the rest of a small request. So they are kept until the turn of the loop is over, or there are many of them.

A connection that is closed while its client does not read would wait for it without end: it is cut after a while.
"""

import asyncio
from typing import Any, Final

_MOST: Final = 1 << 16


class Outlet:
    """A transport around the one that the loop made."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._transport = transport
        self._loop = loop
        self._patience = patience
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > _MOST:
            self.flush()
        elif len(self._parts) == 1:
            self._loop.call_soon(self.flush)

    def write_whole(self, data: bytes) -> None:
        """An answer that is whole, and so has nothing to wait for."""
        if self._parts:
            self.write(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def flush(self) -> None:
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if not parts or self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif size > _MOST:
            # To join what is large costs more than it spares.
            self._transport.writelines(parts)
        else:
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(self._patience, self._transport.abort)

    def abort(self) -> None:
        self._parts, self._size = [], 0
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.flush()
        self._transport.set_protocol(protocol)
