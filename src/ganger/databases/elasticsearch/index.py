"""One index of versioned documents over HTTP: opened, read, written on a condition, searched.

What can go wrong, and what is done about it:

- a write times out, or its connection breaks: it may be stored. That is StoreUnavailable, "unknown"; nothing is sent
  twice;
- somebody deletes the index, and the server makes an empty one by itself with the next write: all versions begin again,
  and two holders of one lock could have the same. So documents are written through an alias (`require_alias`): without
  it there is no index to be made. And each index has its own UUID, which is compared whenever a document is read: one
  that has changed is refused for as long as this process lives;
- acknowledged writes are lost with the power because the index is set to `translog.durability: async`: refused;
- several primary shards each have their own sequence of versions: refused.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx2
import msgspec

from ganger.core.errors import (
    GangerError,
    StoreBroken,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreNotADatabase,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from ganger.databases.elasticsearch.address import Address

OLDEST: Final = {"elasticsearch": (7, 10), "opensearch": (1, 0)}
_ANSWER: Final = 10.0
_CONNECT: Final = 2.0
_PAGE: Final = 10_000
_NOT_DONE: Final = frozenset({400, 401, 403, 404, 405, 406, 413, 415})
"""The server has read the request and done nothing."""


class Refused(Exception):
    """The condition of a write does not hold."""


class Hit(NamedTuple):
    """A document and its version, or some fields of it."""

    id: str
    source: Any
    version: tuple[int, int]


class Index:
    """An index with one primary shard, reached by an alias of its name."""

    def __init__(self, address: Address, timeout: float = _ANSWER) -> None:
        self._address = address
        self._uuid = ""
        self._client = httpx2.AsyncClient(
            base_url=address.url, auth=address.credentials, timeout=httpx2.Timeout(timeout, connect=_CONNECT)
        )
        self._alias = quote(address.name, safe="")
        self._timeout = f"{round(timeout * 1_000)}ms"

    @classmethod
    async def open(cls, address: Address, timeout: float = _ANSWER) -> "Index":
        """Make the index if it is not there, and see that it keeps what is promised.

        Raises StoreUnavailable, StoreNotADatabase (no such server, or one too old, or an index of another make).
        """
        index = cls(address, timeout)
        try:
            _check_server(await index._ask("GET", "/"), address)
            await index._prepare()
        except BaseException:
            await index.close()
            raise
        return index

    async def close(self) -> None:
        await self._client.aclose()

    async def _prepare(self) -> None:
        if await self._find_uuid() is None:
            settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1", "translog.durability": "request"}
            body = {
                "settings": {"index": settings},
                "mappings": {"dynamic": False},
                "aliases": {self._address.name: {}},
            }
            await self._ask("PUT", f"/{self._alias}-documents", body, accept=(400,))
        found = await self._find_uuid()
        if found is None:
            raise self._tell_odd("it is no alias of one index: it may have been made by another program")
        self._uuid = found

    async def _find_uuid(self) -> str | None:
        """The UUID of the one index behind the alias; None if there is no alias."""
        reply = await self._ask("GET", f"/{self._alias}/_settings?flat_settings=true", accept=(404,))
        if "error" in reply:
            return None
        if len(reply) != 1 or self._address.name in reply:
            raise self._tell_odd("a name of its own is needed, as an alias of one index alone")
        settings = next(iter(reply.values()))["settings"]
        if settings.get("index.number_of_shards") != "1":
            raise self._tell_odd("it has several primary shards, each with versions of its own: use one")
        if settings.get("index.translog.durability", "request") != "request":
            raise self._tell_odd(
                "its translog.durability is async, which loses what was acknowledged: set it to request"
            )
        return str(settings["index.uuid"])

    async def _check_uuid(self) -> None:
        found = await self._find_uuid()
        if found != self._uuid:
            raise StoreReplaced(
                f"the index {self._address.name!r} is not the one that was opened: somebody deleted or replaced it. "
                "Look what is in it, and start this program again",
                index=self._address.name,
            )

    def _tell_odd(self, why: str) -> StoreNotADatabase:
        return StoreNotADatabase(f"the index {self._address.name!r} can not be used: {why}", index=self._address.name)

    async def find(self, id: str) -> Hit | None:
        """The document, as the shard that is asked has it."""
        reply, _ = await asyncio.gather(self._ask("GET", self._path(id), accept=(404,)), self._check_uuid())
        if not reply.get("found"):
            return None
        return Hit(id, reply.get("_source"), _read_version(reply))

    async def make(self, id: str, body: bytes) -> tuple[int, int]:
        """Make the document. Raises Refused if there is one."""
        return await self._change("PUT", id, "op_type=create", body)

    async def replace(self, id: str, body: bytes, version: tuple[int, int]) -> tuple[int, int]:
        """Replace the document that has this version. Raises Refused if it has another."""
        return await self._change("PUT", id, _condition(version), body)

    async def remove(self, id: str, version: tuple[int, int]) -> None:
        # Deletes know no `require_alias`; without its index one finds nothing, and makes none.
        reply = await self._ask("DELETE", f"{self._path(id)}?{_condition(version)}", accept=(404, 409))
        if reply.get("result") != "deleted":
            raise Refused

    async def _change(self, method: str, id: str, condition: str, body: bytes) -> tuple[int, int]:
        path = f"{self._path(id)}?{condition}&require_alias=true&timeout={self._timeout}"
        reply = await self._ask(method, path, body, accept=(409,))
        if "error" in reply:
            raise Refused
        return _read_version(reply)

    async def search(self, fields: Sequence[str]) -> list[Hit]:
        """Every document with these fields, as of the last refresh."""
        hits: list[Hit] = []
        query: dict[str, Any] = {
            "size": _PAGE, "_source": list(fields) or False, "seq_no_primary_term": True, "sort": ["_seq_no"],
        }  # fmt: skip
        while True:
            reply = await self._ask("POST", f"/{self._alias}/_search", query)
            found = reply["hits"]["hits"]
            hits += [Hit(hit["_id"], hit.get("_source", {}), _read_version(hit)) for hit in found]
            if len(found) < _PAGE:
                return hits
            query["search_after"] = found[-1]["sort"]

    def _path(self, id: str) -> str:
        # A name of dots alone would be taken for a folder.
        return f"/{self._alias}/_doc/{quote(id, safe='').replace('.', '%2E')}"

    async def _ask(self, method: str, path: str, body: object = None, accept: Sequence[int] = ()) -> dict[str, Any]:
        if self._client.is_closed:
            raise StoreClosed("the documents are closed: open them again")
        content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        headers = {} if content is None else {"content-type": "application/json"}
        try:
            reply = await self._client.request(method, path, content=content, headers=headers)
        except httpx2.HTTPError as error:
            said = str(error) or type(error).__name__
            raise StoreUnavailable(f"{self._address.url} gives no answer: is it running? ({said})") from error
        if reply.status_code >= 300 and reply.status_code not in accept:
            raise _translate(reply, self._address)
        return _read_reply(reply, self._address)


def _condition(version: tuple[int, int]) -> str:
    return f"if_primary_term={version[0]}&if_seq_no={version[1]}"


def _read_version(reply: Mapping[str, Any]) -> tuple[int, int]:
    return int(reply["_primary_term"]), int(reply["_seq_no"])


def _read_reply(reply: httpx2.Response, address: Address) -> dict[str, Any]:
    try:
        return msgspec.json.decode(reply.content, type=dict[str, Any])
    except msgspec.DecodeError:
        raise _tell_stranger(address) from None


def _tell_stranger(address: Address) -> StoreNotADatabase:
    return StoreNotADatabase(f"{address.url} answers, but not as Elasticsearch or OpenSearch: check the address")


def _check_server(said: Mapping[str, Any], address: Address) -> None:
    about = said.get("version")
    if not isinstance(about, Mapping) or not isinstance(number := about.get("number"), str):
        raise _tell_stranger(address)
    kind = str(about.get("distribution", "elasticsearch"))
    numbers = tuple(int(part) for part in number.split(".")[:2] if part.isdecimal())
    if kind not in OLDEST or numbers < OLDEST[kind]:
        wanted = " or ".join(f"{name} {'.'.join(map(str, oldest))}" for name, oldest in OLDEST.items())
        raise StoreNotADatabase(f"{address.url} is {kind} {number}: use {wanted}, or newer", kind=kind, number=number)


def _translate(reply: httpx2.Response, address: Address) -> GangerError:
    status, said = reply.status_code, reply.text[:300]
    if status in (401, 403) and "cluster_block" not in said:
        return StoreReadOnly(f"{address.url} refuses this user: check the name, password and rights ({said})")
    if "flood" in said or "read_only_allow_delete" in said or "read-only-allow-delete" in said:
        return StoreFull(f"the disk of {address.url} is full, so it takes no writes: free some space there ({said})")
    if "cluster_block" in said:
        return StoreReadOnly(f"the index takes no writes: lift the block ({said})")
    if status == 404:
        return StoreReplaced(f"the index {address.name!r} is gone: start this program again to make it ({said})")
    if status in _NOT_DONE:
        return StoreError(f"{address.url} refuses a request with {status}: {said}")
    if status == 507:
        return StoreBroken(f"{address.url} can not write: {said}")
    return StoreUnavailable(f"{address.url} can not answer now ({status}): {said}")
