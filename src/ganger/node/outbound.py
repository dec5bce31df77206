"""Requests to addresses that strangers name, without being used by them against what only this machine can reach.

What can go wrong, and why this is right:

- *The address is one of ours*: a database on loopback, the metadata of a cloud, a printer. Only addresses of the public
  internet are asked, unless the operator names the host. Forms that hide an IPv4 address inside of an IPv6 one count as
  that address, or are refused.
- *The name answers differently the second time.* It is resolved once, every answer is looked at, and the connection
  goes to an address that was looked at; the certificate is still checked against the name.
- *The receiver sends us elsewhere.* Redirects are not followed: an answer other than 2xx is a failure.
- *The receiver is slow, or talks without end.* All has one deadline, and of the answer only the first line is read.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from ganger.core.errors import BadInput, NotAllowed

LONGEST_URL: Final = 2_000
DEADLINE: Final = 20.0
_LINE: Final = 8 << 10
_PORTS: Final = {"https": 443, "http": 80}
_WRAPPED: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 addresses that lead to an IPv4 address which is not to be seen in them at once."""


class Rule(NamedTuple):
    """Hosts, or `host:port`, that may also be asked without TLS and at private addresses."""

    trusted: frozenset[str] = frozenset()

    def trusts(self, url: SplitResult) -> bool:
        host = (url.hostname or "").lower()
        return not self.trusted.isdisjoint({host, f"{host}:{_port(url)}"})


class Answered(NamedTuple):
    status: int

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


def check_url(text: str, rule: Rule) -> SplitResult:
    """The address, as far as it can be judged without asking anybody. BadInput, NotAllowed."""
    if len(text) > LONGEST_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput(f"a webhook has at most {LONGEST_URL} plain characters, without spaces", field="webhook")
    url = _split(text)
    if url.scheme not in _PORTS or not url.hostname or url.username is not None or url.password is not None:
        raise BadInput("a webhook is https://host/path, without a name or a password in it", field="webhook")
    if rule.trusts(url):
        return url
    if url.scheme != "https":
        raise NotAllowed("a webhook needs https: see the setting webhook_hosts", host=url.hostname)
    if (literal := _read_literal(url.hostname)) is not None:
        check_address(literal)
    return url


def _split(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _port(url)
    except ValueError:
        raise BadInput(f"the webhook {text!r:.80} is no address", field="webhook") from None
    return url


def _port(url: SplitResult) -> int:
    return url.port or _PORTS.get(url.scheme, 0)


def _read_literal(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def check_address(address: str) -> None:
    """NotAllowed unless it is one of the public internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if any(found in network for network in _WRAPPED):
            raise _refuse(address)
        found = found.ipv4_mapped or found
    if not found.is_global or found.is_multicast:
        raise _refuse(address)


def _refuse(address: str) -> NotAllowed:
    return NotAllowed(f"{address} is not of the public internet: see the setting webhook_hosts", address=address)


async def post(
    text: str, body: bytes, headers: Mapping[str, str], rule: Rule, tls: ssl.SSLContext | None = None
) -> Answered:
    """Send it once. BadInput, NotAllowed: it must not be sent. OSError, TimeoutError: it may have been."""
    url = check_url(text, rule)
    async with asyncio.timeout(DEADLINE):
        addresses = await _resolve(url, rule)
        return await _ask(url, addresses, _write_request(url, body, headers), tls)


async def _resolve(url: SplitResult, rule: Rule) -> Sequence[str]:
    host, loop = url.hostname or "", asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, _port(url), type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in [] if rule.trusts(url) else addresses:
        check_address(address)
    if not addresses:
        raise OSError(f"the host {host} has no address")
    return addresses


def _write_request(url: SplitResult, body: bytes, headers: Mapping[str, str]) -> bytes:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.netloc
    said = {"Host": host, "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + body


async def _connect(
    url: SplitResult, addresses: Sequence[str], tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first of the addresses that answers: a machine may have no way to some of them."""
    secure = (tls or ssl.create_default_context()) if url.scheme == "https" else None
    name, trouble = url.hostname if secure else None, OSError("there is nobody to ask")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, _port(url), ssl=secure, server_hostname=name, limit=_LINE)
        except OSError as error:
            trouble = error
    raise trouble


async def _ask(url: SplitResult, addresses: Sequence[str], request: bytes, tls: ssl.SSLContext | None) -> Answered:
    reader, writer = await _connect(url, addresses, tls)
    try:
        writer.write(request)
        await writer.drain()
        return _read_status(await reader.readline())
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def _read_status(line: bytes) -> Answered:
    words = line.split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not (words[1].isdigit() and len(words[1]) == 3):
        raise OSError("the answer is not HTTP")
    return Answered(int(words[1]))
