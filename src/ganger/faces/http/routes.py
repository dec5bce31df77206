"""The table of routes: each says its method, its path, which scope it needs and which parameters it takes.

The table is the only way to an endpoint, so what it says about scopes is what holds. Paths are found part by part, in
as many steps as they have parts, whatever the number of routes.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from ganger.core.errors import BadInput, NotFound, WrongMethod
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import JSON, Answer
from ganger.faces.http.request import WEBSOCKET, Request

Endpoint = Callable[[Request], Awaitable[Answer]]
_NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})


class Route(NamedTuple):
    """One row. `{name}` in the path is left open. With the parameter `waits` it takes as long as the client stays.

    `family`: an attempt may use it with its own token, and the endpoint sees to it that it stays in its family.
    `body` and `answer` are the types of what is sent and what is answered; `status` and `kind` are those of a success.
    `asks` is the type of a question that is JSON in the parameter `ask`. `also`: other successes, without a body.
    `texts` say what each parameter means, and each open part of the path by its name in braces.
    """

    method: str
    path: str
    need: Need
    endpoint: Endpoint
    summary: str
    parameters: frozenset[str] = frozenset()
    waits: str | None = None
    body: Any = None
    answer: Any = None
    status: int = 200
    kind: bytes = JSON
    family: bool = False
    asks: Any = None
    also: tuple[int, ...] = ()
    texts: Mapping[str, str] = _NO_TEXTS


def word(routes: Iterable[Route], texts: Mapping[str, str]) -> list[Route]:
    """The routes with what their parameters mean; what a route says itself goes before."""
    return [route._replace(texts={**texts, **route.texts}) for route in routes]


@dataclass(slots=True)
class _Place:
    """A part of a path: what may follow it, and what may be done there."""

    parts: dict[str, "_Place"] = field(default_factory=dict)
    open: "_Place | None" = None
    routes: dict[str, Route] = field(default_factory=dict)


class Table:
    """All routes of a server."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.rows = tuple(routes)
        self._top = _Place()
        self._whole = {(row.method, row.path.encode()): row for row in self.rows if "{" not in row.path}
        for route in self.rows:
            self._add(route)

    def _add(self, route: Route) -> None:
        place = self._top
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                place.open = place.open or _Place()
                place = place.open
            else:
                place = place.parts.setdefault(part, _Place())
        if route.method in place.routes:
            raise ValueError(f"two routes for {route.method} {route.path}")
        place.routes[route.method] = route

    def find_whole(self, method: str, raw_path: bytes) -> Route | None:
        """The route, if it is one whose path has no open parts."""
        return self._whole.get((method, raw_path))

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route, and what stands in the open parts of its path. Raises NotFound, WrongMethod."""
        if (whole := self.find_whole(method, raw_path)) is not None:
            return whole, {}
        open_parts: list[str] = []
        place = self._walk(raw_path, open_parts)
        if place is None or not place.routes:
            raise NotFound("nothing is here; /docs lists the addresses of this server")
        route = place.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allow = sorted(set(place.routes) - {WEBSOCKET})
            raise WrongMethod(f"{method:.20} is not done here; use {' or '.join(allow)}", allow=allow)
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        return route, dict(zip(names, open_parts, strict=True))

    def _walk(self, raw_path: bytes, open_parts: list[str]) -> _Place | None:
        place: _Place | None = self._top
        for raw in raw_path.split(b"/")[1:]:
            if place is None:
                return None
            part = _read(raw)
            if (known := place.parts.get(part)) is not None:
                place = known
            else:
                open_parts.append(part)
                place = place.open if part else None
        return place


def _read(raw: bytes) -> str:
    """A part of a path; a slash that belongs to it is written %2F."""
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError:
        raise BadInput("the path is not UTF-8") from None
