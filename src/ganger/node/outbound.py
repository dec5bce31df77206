"""Requests to addresses that strangers name, without being used by them against what only this machine can reach.

What can go wrong, and why this is right:

- *The address is one of ours*: a database on loopback, the metadata of a cloud, a printer. Only addresses of the public
  internet are asked, unless the operator names the host. Forms that hide an IPv4 address inside of an IPv6 one count as
  that address, or are refused.
- *The name answers differently the second time.* It is resolved once, every answer is looked at, and the connection
  goes to an address that was looked at; the certificate is still checked against the name.
- *The receiver sends us elsewhere.* Redirects are not followed, and no proxy is asked.
- *The receiver is slow, or talks without end.* All has one deadline, and of the answer only the status is read.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from ganger.core.address import strip_password
from ganger.core.errors import BadInput, NotAllowed

LONGEST_URL: Final = 2_000
DEADLINE: Final = 20.0
_LINE: Final = 8 << 10
MOST_LINES: Final = 200
"""So much may come before the status that counts."""

_PORTS: Final = {"https": 443, "http": 80}
_PUBLIC: Final = ipaddress.IPv6Network("2000::/3")
"""All that is given out of IPv6. What else there is leads to IPv4 addresses, to this place, or nowhere."""

_WRAPPED: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 addresses that lead to an IPv4 address which is not to be seen in them at once."""


class Rule(NamedTuple):
    """Hosts, or `host:port`, that may also be asked without TLS and at private addresses.

    `what` is asked by this rule, and `setting` is where an operator names the hosts.
    """

    trusted: frozenset[str] = frozenset()
    what: str = "webhook"
    setting: str = "webhook_hosts"

    def trusts(self, url: SplitResult) -> bool:
        host = (url.hostname or "").lower()
        return not self.trusted.isdisjoint({host, f"{host}:{_port(url)}"})


def trust(rule: Rule, hosts: str) -> Rule:
    """The rule, with these hosts, as a setting names them. BadInput."""
    names = [name.strip().lower() for name in hosts.split(",") if name.strip()]
    if any("/" in name for name in names):
        raise BadInput(f"{rule.setting} has names, or name:port, with commas between them", field=rule.setting)
    return rule._replace(trusted=frozenset(names))


class Answered(NamedTuple):
    status: int

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


def check_url(text: str, rule: Rule) -> SplitResult:
    """The address, as far as it can be judged without asking anybody. BadInput, NotAllowed."""
    if len(text) > LONGEST_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput(f"a {rule.what} has at most {LONGEST_URL} plain characters, without spaces", field=rule.what)
    url = _split(text, rule)
    if url.scheme not in _PORTS or not url.hostname or url.username is not None or url.password is not None:
        raise BadInput(f"a {rule.what} is https://host/path, without a name or a password in it", field=rule.what)
    if rule.trusts(url):
        return url
    if url.scheme != "https":
        raise NotAllowed(f"a {rule.what} needs https: see the setting {rule.setting}", host=url.hostname)
    if (literal := _read_literal(url.hostname)) is not None:
        check_address(literal, rule)
    return url


def _split(text: str, rule: Rule) -> SplitResult:
    try:
        url = urlsplit(text)
        _port(url)
    except ValueError:
        shown = strip_password(text)
        raise BadInput(f"the {rule.what} {shown!r:.80} is no address", field=rule.what) from None
    return url


def _port(url: SplitResult) -> int:
    return url.port or _PORTS.get(url.scheme, 0)


def _read_literal(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def check_address(address: str, rule: Rule) -> None:
    """NotAllowed unless it is one of the public internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if any(found in network for network in _WRAPPED):
            raise _refuse(address, rule)
        if found.ipv4_mapped is None and found not in _PUBLIC:
            raise _refuse(address, rule)
        found = found.ipv4_mapped or found
    if not found.is_global or found.is_multicast:
        raise _refuse(address, rule)


def _refuse(address: str, rule: Rule) -> NotAllowed:
    return NotAllowed(f"{address} is not of the public internet: see the setting {rule.setting}", address=address)


async def post(
    text: str, body: bytes, headers: Mapping[str, str], rule: Rule, tls: ssl.SSLContext | None = None
) -> Answered:
    """Send it once. BadInput, NotAllowed: it must not be sent. OSError, TimeoutError: it may have been."""
    said = {"Content-Length": str(len(body)), **headers}
    url = check_url(text, rule)
    return await _ask_once(url, _write_request("POST", url, said) + body, rule, tls)


async def get(text: str, headers: Mapping[str, str], rule: Rule, tls: ssl.SSLContext | None = None) -> Answered:
    """Ask once, as `post` does."""
    url = check_url(text, rule)
    return await _ask_once(url, _write_request("GET", url, headers), rule, tls)


async def _ask_once(url: SplitResult, request: bytes, rule: Rule, tls: ssl.SSLContext | None) -> Answered:
    async with asyncio.timeout(DEADLINE):
        return await _ask(url, await _resolve(url, rule), request, tls)


async def _resolve(url: SplitResult, rule: Rule) -> Sequence[str]:
    host, loop = url.hostname or "", asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, _port(url), type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in [] if rule.trusts(url) else addresses:
        check_address(address, rule)
    if not addresses:
        raise OSError(f"the host {host} has no address")
    return addresses


def _write_request(method: str, url: SplitResult, headers: Mapping[str, str]) -> bytes:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    said = {"Host": url.netloc, **headers, "Connection": "close"}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


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
        return await _read_answer(reader)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _read_answer(reader: asyncio.StreamReader) -> Answered:
    """What a server says before its answer (1xx) is passed over."""
    begins = True
    for _ in range(MOST_LINES):
        line = await _read_line(reader)
        if begins and not 100 <= (answered := _read_status(line)).status < 200:
            return answered
        begins = not line.strip()
    raise OSError("the answer has no end")


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        raise OSError("a line of the answer has no end") from None


def _read_status(line: bytes) -> Answered:
    words = line.split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not (words[1].isdigit() and len(words[1]) == 3):
        raise OSError("the answer is not HTTP")
    return Answered(int(words[1]))
