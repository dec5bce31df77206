"""Where a server listens, and how its socket outlives a restart.

The program that takes the place of this one in its process finds the socket where a service manager would have put it
(descriptor 3, `LISTEN_FDS`, `LISTEN_PID`). Whoever connects meanwhile waits in the kernel's queue and is refused by
nobody. A socket that is not what the settings ask for now is closed, and another one is bound.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from ganger.assembly.settings import Settings, find_inherited
from ganger.core.errors import BadInput, Conflict

HOST: Final = "127.0.0.1"
PORT: Final = 8470
_BACKLOG: Final = 2_048
_SENDING: Final = 256 << 10
"""So much waits in the kernel for a client that does not read; by itself it would be megabytes for each."""

_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_FIRST: Final = 3


class Address(NamedTuple):
    """Where the server listens. `fixed`: that port or none; else a free one if it is taken."""

    host: str
    port: int
    fixed: bool

    @property
    def loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def read_address(listen: str) -> Address:
    """`host:port`, `[v6]:port`, a port alone, or nothing for the default."""
    if not listen:
        return Address(HOST, PORT, fixed=False)
    host, colon, port = listen.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16) or (colon and not host):
        raise BadInput(f"listen is {listen!r:.80}; write 127.0.0.1:{PORT} or [::1]:{PORT}", field="listen")
    return Address(host.removeprefix("[").removesuffix("]") or HOST, int(port), fixed=True)


@contextmanager
def bind_server(settings: Settings, *, insecure: bool = False) -> Iterator[socket.socket]:
    """The socket on which a server will listen, closed at the end; so its address is known before it serves."""
    address = read_address(settings.listen)
    _refuse_unsafe(address, settings, insecure)
    sock = _inherit(address) or _bind(address)
    try:
        yield sock
    finally:
        sock.close()


def _refuse_unsafe(address: Address, settings: Settings, insecure: bool) -> None:
    if not address.loopback and not settings.tls_cert and not insecure:
        raise BadInput(
            f"{address.host} can be reached from other machines, and tokens would travel in the clear: set tls_cert "
            "and tls_key, listen on 127.0.0.1, or say --insecure",
            field="listen",
        )


def name_hosts(settings: Settings) -> frozenset[str] | None:
    """The names by which the server may be called. On every address of the machine they are not known: then by any."""
    address = read_address(settings.listen)
    more = frozenset(name.strip().lower() for name in settings.hosts.split(",") if name.strip())
    if not address.loopback and not more:
        return None
    own = f"[{address.host}]" if ":" in address.host else address.host.lower()
    return _LOCAL | more | {own}


def _bind(address: Address) -> socket.socket:
    if not address.fixed:
        with suppress(OSError):
            return _listen(address.host, address.port)
        address = address._replace(port=0)
    try:
        return _listen(address.host, address.port)
    except OSError as error:
        raise Conflict(
            f"cannot listen on {address.host}:{address.port}: {error.strerror}", host=address.host, port=address.port
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns off Nagle's delay only on sockets that say that they are TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENDING)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def name_url(settings: Settings, sock: socket.socket) -> str:
    """The address under which a server on this socket is reached from here."""
    address = read_address(settings.listen)
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if settings.tls_cert else 'http'}://{host}:{sock.getsockname()[1]}"


def _inherit(address: Address) -> socket.socket | None:
    """The socket that was left here, if it is the one that is asked for."""
    if not find_inherited():
        return None
    try:
        sock = socket.socket(fileno=_FIRST)
    except OSError:
        return None
    if _is_asked_for(sock, address):
        sock.set_inheritable(False)
        sock.setblocking(False)
        return sock
    sock.close()
    return None


def _is_asked_for(sock: socket.socket, address: Address) -> bool:
    try:
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        host, port = sock.getsockname()[:2]
    except (OSError, ValueError):
        return False
    return bool(listens) and host == address.host and (port == address.port or not (address.fixed and address.port))


def leave_socket(number: int) -> dict[str, str]:
    """Put the socket with this descriptor where the next program of this process looks for it.

    Returns what that must find in its environment.
    """
    if number == _FIRST:
        os.set_inheritable(number, True)
    else:
        os.dup2(number, _FIRST, inheritable=True)
    return {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
