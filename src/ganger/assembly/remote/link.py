"""One line to a server: requests go out, answers or errors of ours come back.

What can go wrong, and why this is right:

- *Nobody answers at the first request.* The address is wrong, or the server is not up: that is told at once.
- *Nobody answers later on.* The server is being restarted. A question is asked again until somebody answers, or until
  the patience is over. A change is not sent again by itself: it may have been made. Unknown is not failed, and the
  error says so; whoever can send his change safely twice, because it has a key, does that.
- *An answer never comes.* Every request has a time limit; one that waits has its own wait on top.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from ganger.core.errors import GangerError, StoreUnavailable, TooManyRequests, decode
from ganger.wire.v1 import remote
from ganger.wire.v1.shapes import Problem

T = TypeVar("T")
PATIENCE: Final = 60.0
"""Seconds for which a question is asked again, once the server has answered before."""

CONNECT: Final = 5.0
ANSWER: Final = 30.0
_RESTS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
_DATA: Final = "data: "
_END: Final = "event: end"
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)


class Link:
    """A line to the server at this address. Belongs to one event loop; close it at the end."""

    def __init__(self, url: str, token: str, *, patience: float = PATIENCE) -> None:
        self.url = url.rstrip("/")
        self._patience = patience
        self._token = token
        self._reached = False
        headers = {"authorization": f"Bearer {token}", remote.PROTOCOL_HEADER: remote.PROTOCOL}
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        # The proxies of the environment are for the wide world; what is trusted is what the system trusts.
        verify = ssl.create_default_context() if url.startswith("https:") else False
        self._client = httpx2.AsyncClient(
            base_url=self.url, headers=headers, limits=limits, verify=verify, trust_env=False
        )

    def speaks_for(self, task: int, fence: int) -> bool:
        """Is the token that of this attempt?"""
        return self._token.startswith(f"{task}.{fence}.")

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, path: str, kind: type[T], question: object = None, *, wait: float | None = None) -> T:
        """The answer to a question, which changes nothing: it is asked again if the server goes away meanwhile."""
        body, _ = await self.ask_bytes(path, question, wait=wait)
        return _read(body, kind)

    async def ask_bytes(
        self, path: str, question: object = None, *, wait: float | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """The same, as it comes, with the headers."""
        asked = _write_question(question, wait)
        reply = await self.patiently(lambda: self._send("GET", path, asked, wait=wait))
        return reply.content, reply.headers

    async def tell(
        self,
        path: str,
        kind: type[T],
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        wait: float | None = None,
    ) -> T:
        """The answer to a change. StoreUnavailable: it is not known whether it was made."""
        content = b"" if body is None else msgspec.json.encode(body)
        asked = _write_question(None, wait)
        return _read((await self._send("POST", path, asked, content, headers, wait=wait)).content, kind)

    async def tell_only(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> None:
        """A change without an answer."""
        content = b"" if body is None else msgspec.json.encode(body)
        await self._send("POST", path, {}, content, headers)

    async def put(self, path: str, asked: Mapping[str, str], body: bytes, headers: Mapping[str, str]) -> None:
        """Put bytes as they are."""
        await self._send("PUT", path, asked, body, headers)

    async def follow(self, path: str, question: object) -> AsyncGenerator[bytes, None]:
        """The data of server-sent events up to the event `end`; StoreUnavailable if the stream breaks off before."""
        asked, ended = _write_question(question, None), False
        async with self._opened(path, asked) as reply:
            async for line in reply.aiter_lines():
                ended = ended or line == _END
                if line.startswith(_DATA) and not ended:
                    yield line.removeprefix(_DATA).encode()
        if not ended:
            raise StoreUnavailable(f"the stream of {self.url} broke off")

    @asynccontextmanager
    async def _opened(self, path: str, asked: Mapping[str, str]) -> "AsyncGenerator[httpx2.Response, None]":
        timeout = httpx2.Timeout(ANSWER, connect=CONNECT)
        try:
            async with self._client.stream("GET", path, params=asked, timeout=timeout) as reply:
                self._reached = True
                if reply.status_code >= 400:
                    await reply.aread()
                    raise _read_problem(reply, self.url)
                yield reply
        except httpx2.HTTPError as error:
            raise _translate(error, self.url, changed=False) from None

    async def _send(
        self,
        method: str,
        path: str,
        asked: Mapping[str, str],
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        wait: float | None = None,
    ) -> httpx2.Response:
        timeout = httpx2.Timeout(ANSWER + (wait or 0.0), connect=CONNECT)
        try:
            reply = await self._client.request(
                method, path, params=asked, content=content, headers=dict(headers or {}), timeout=timeout
            )
        except httpx2.HTTPError as error:
            self._reached = self._reached or not isinstance(error, _UNSENT)
            raise _translate(error, self.url, changed=method != "GET") from None
        # One that is just stopping has answered, too: another will follow it.
        self._reached = True
        if reply.status_code >= 400:
            raise _read_problem(reply, self.url)
        return reply

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What is asked, asked again while the server is away or overloaded, if it has answered before."""
        loop, tries = asyncio.get_running_loop(), 0
        until = loop.time() + self._patience
        while True:
            try:
                return await ask()
            except (StoreUnavailable, TooManyRequests):
                rest = _RESTS[min(tries, len(_RESTS) - 1)]
                if not self._reached or loop.time() + rest > until:
                    raise
            tries += 1
            await asyncio.sleep(rest)


def _write_question(question: object, wait: float | None) -> dict[str, str]:
    asked = {} if question is None else {"ask": msgspec.json.encode(question).decode()}
    return asked if wait is None else {**asked, "wait": f"{wait:.3f}"}


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreUnavailable(f"the server's answer cannot be read: {error}") from None


def _read_problem(reply: httpx2.Response, url: str) -> GangerError:
    """The error that the server told; what is none of ours is a server that is none of ours, or a proxy before it."""
    try:
        problem = msgspec.json.decode(reply.content, type=Problem)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return StoreUnavailable(f"{url} answered with status {reply.status_code}, and not as a server of Ganger does")
    fields: dict[str, Any] = problem.fields
    return decode(problem.code, problem.detail, fields)


def _translate(error: httpx2.HTTPError, url: str, *, changed: bool) -> StoreUnavailable:
    what = str(error) or type(error).__name__
    if isinstance(error, _UNSENT):
        return StoreUnavailable(f"no server answers at {url}: {what}", url=url, unsent=True)
    doubt = ": it is not known whether the change was made" if changed else ""
    return StoreUnavailable(f"the connection to {url} broke off ({what}){doubt}", url=url)
