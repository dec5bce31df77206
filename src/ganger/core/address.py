"""The address of a store, and the password that may be in it.

An address is shown, logged, written into unit files and told to commands; a password is not. So whoever shows an
address or hands it on strips it here first, and who connects may have the password from elsewhere.

What can go wrong, and why this is right: a password may have characters that end the part of an address in which it
stands (`/`, `?`, `#`, `@`), if whoever wrote it did not escape them. Then no driver would take the address, but the
error that says so shows it. So all up to the last `@` before the options counts as the name and the password. Drivers
take passwords among the options too: those are left out. Paths of files have no passwords.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import quote

from ganger.core.errors import BadInput

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{0,2}")
_OPTIONS: Final = re.compile(r"[?&][\w.-]+=")
_OF_FILES: Final = ("sqlite:", "memory:")
_SECRET: Final = re.compile(r"pass(?!file)|secret|token|authmechanismproperties|credential", re.IGNORECASE)
_ENDS: Final = re.compile(r"[/?#@\s\[\]]")
_ODD_PORT: Final = re.compile(r"^(\[[^]]*\]|[^:\[]*):(?!\d*$)")


class _Parts(NamedTuple):
    """`scheme`, then `user:password@` if `named`, then the place with its options."""

    scheme: str
    named: bool
    user: str
    password: str | None
    place: str
    options: str

    def write(self, password: str | None) -> str:
        said = self.user if password is None else f"{self.user}:{password}"
        return f"{self.scheme}{said}{'@' if self.named else ''}{self.place}{self.options}"


def strip_password(address: str) -> str:
    """The address without any password: it may be shown, and handed on."""
    parts = _split(address)
    if parts is None:
        return address
    mark, *options = re.split(r"([?&#])", parts.options)
    kept = [(sign, option) for sign, option in zip(options[::2], options[1::2], strict=True) if not _is_secret(option)]
    query = "".join(f"{'?' if not n and sign == '&' else sign}{option}" for n, (sign, option) in enumerate(kept))
    named = parts.named and (bool(parts.user) or parts.password is None)
    return parts._replace(options=mark + query, named=named).write(None)


def has_password(address: str) -> bool:
    return strip_password(address) != address


def put_password(address: str, password: str) -> str:
    """The address with this password, unless it has one. BadInput: it names no user."""
    parts = _split(address)
    if parts is None or has_password(address):
        return address
    if not parts.user:
        raise BadInput("a password needs a user: name one in the address, scheme://user@host/database", field="store")
    return parts.write(quote(password, safe=""))


def check_address(address: str) -> None:
    """BadInput for what no driver would take, and would show: a password that ends too early, a port that is none."""
    parts = _split(address)
    if parts is None:
        return
    if _ENDS.search(f"{parts.user}{parts.password or ''}"):
        raise BadInput("in a name or a password write / ? # @ and spaces as %2F %3F %23 %40 %20", field="store")
    for host in parts.place.partition("/")[0].split(","):
        if _ODD_PORT.search(host):
            raise BadInput("the port in the address of the store is no number", field="store")


def _is_secret(option: str) -> bool:
    name, equals, _ = option.partition("=")
    return bool(equals) and _SECRET.search(name) is not None


def _split(address: str) -> _Parts | None:
    """None for what has no place for a password."""
    scheme = _SCHEME.match(address)
    if scheme is None or address.lower().startswith(_OF_FILES):
        return None
    body = address[scheme.end() :]
    options = _OPTIONS.search(body)
    end = len(body) if options is None else options.start()
    if "@" not in body[:end] and "@" in body[end:] and ":" in body[:end]:
        # What looks like the options is the end of a password.
        end = len(body)
    said, at, place = body[:end].rpartition("@")
    user, colon, password = said.partition(":")
    return _Parts(scheme[0], bool(at), user, password if colon else None, place, body[end:])
