"""Tells the service manager that started this process how it is, in the protocol of systemd."""

import socket
from typing import Final

_SEND_SECONDS: Final = 1.0


class Notifier:
    """`address` is what NOTIFY_SOCKET says; None means that nobody wants to know."""

    def __init__(self, address: str | None) -> None:
        self._address = address

    def tell(self, *lines: str) -> bool:
        """Send these, each NAME=value, as one message; False if nobody heard them, which changes nothing here."""
        if not self._address:
            return False
        place = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.settimeout(_SEND_SECONDS)
            try:
                line.sendto("\n".join(lines).encode(), place)
            except OSError:
                return False
        return True
