"""A bucket of an S3 service: the few calls that are made on it, and its errors in our words.

What is not there is `FileNotFoundError`, which only the caller can judge. Everything else is an error of the store.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from ganger.core.errors import StoreBroken, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

if TYPE_CHECKING:
    from obstore.store import S3Config

PIECE: Final = 1 << 20
_PART: Final = 8 << 20
"""Ten thousand parts are the most that a service takes: 80 GB of these."""

_PARTS_AT_ONCE: Final = 2
_RETRIES: Final = 4
_PATIENCE: Final = timedelta(seconds=20)
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_FULL: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "ServiceQuotaExceededException", "InsufficientStorage"})
_FORBIDDEN: Final = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"})
_BEYOND: Final = "InvalidRange"


class BucketPlace(NamedTuple):
    """Where a bucket is, and who asks. What is empty is found as AWS's own tools find it."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    key: str = ""
    secret: str = ""


class Found(NamedTuple):
    """An object in a list."""

    path: str
    size: int


class Bucket:
    def __init__(self, place: BucketPlace) -> None:
        self._name = place.bucket
        self._store = S3Store(
            place.bucket,
            prefix=place.prefix or None,
            config=_configure(place),
            client_options={"allow_http": place.endpoint.startswith("http:"), "timeout": timedelta(minutes=10)},
            retry_config={"max_retries": _RETRIES, "retry_timeout": _PATIENCE},
        )

    async def put(self, path: str, data: bytes) -> None:
        with self._translated("write"):
            await obstore.put_async(self._store, path, data, use_multipart=False)

    async def pour(self, path: str, content: AsyncIterator[bytes | memoryview]) -> None:
        """Write content of any size. If it breaks off, or who waits is cancelled, the service is told to drop it."""
        stop = asyncio.Event()
        with self._translated("write"):
            writing = asyncio.ensure_future(self._write(path, _until(content, stop)))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # Cancelled itself, it would leave its parts at the service; a source that fails makes it clear up.
                stop.set()
                await asyncio.wait([writing])
                if not writing.cancelled():
                    writing.exception()
                raise

    async def _write(self, path: str, content: AsyncIterator[bytes | memoryview]) -> None:
        await obstore.put_async(
            self._store, path, content, use_multipart=True, chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE
        )

    async def read(self, path: str) -> bytes:
        """All of a small object."""
        with self._translated("read"):
            return bytes(await (await obstore.get_async(self._store, path)).bytes_async())

    async def stream(self, path: str, start: int, length: int) -> AsyncGenerator[bytes, None]:
        """Bytes of an object, fewer only where it ends; the first of them are on their way when one is asked for."""
        if length == 0:
            return
        with self._translated("read"):
            try:
                got = await obstore.get_async(self._store, path, options={"range": (start, start + length)})
                async for piece in got.stream(PIECE):
                    yield bytes(piece)
            except BaseError as error:
                if _read_code(error) != _BEYOND:
                    raise

    async def size(self, path: str) -> int:
        with self._translated("look at"):
            return (await obstore.head_async(self._store, path))["size"]

    async def copy(self, path: str, to: str) -> None:
        """Copy inside of the service, which does that up to 5 GiB."""
        with self._translated("copy"):
            await obstore.copy_async(self._store, path, to)

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove what is there of these."""
        with self._translated("delete"):
            if paths:
                await obstore.delete_async(self._store, list(paths))

    async def list(self, prefix: str) -> AsyncGenerator[Found, None]:
        """What begins so, in the order of the alphabet."""
        with self._translated("list"):
            async for page in obstore.list(self._store, prefix):
                for each in page:
                    yield Found(each["path"], each["size"])

    async def sign(self, method: Literal["GET", "PUT"], path: str, seconds: float) -> str:
        """An address with which anybody may read or write that one object for so long."""
        with self._translated("sign"):
            return await obstore.sign_async(self._store, method, path, timedelta(seconds=seconds))

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if _read_code(error) == "NoSuchBucket":
                raise StoreBroken(f"there is no bucket {self._name!r}: make it, or change the setting blobs") from error
            raise
        except (BaseError, PermissionError) as error:
            raise _translate(error, f"could not {doing} in the bucket {self._name!r}") from error


class _Stopped(Exception):
    """Whoever waited for the content to be written does so no more."""


async def _until(
    content: AsyncIterator[bytes | memoryview], stop: asyncio.Event
) -> AsyncGenerator[bytes | memoryview, None]:
    """The content until it ends, or until somebody stops it, which may be while it keeps us waiting."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while True:
            coming = asyncio.ensure_future(anext(content, None))
            await asyncio.wait([coming, stopping], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                coming.cancel()
                await asyncio.wait([coming])
                raise _Stopped
            piece = await coming
            if piece is None:
                return
            yield piece
    finally:
        stopping.cancel()


def _configure(place: BucketPlace) -> "S3Config":
    """An empty one would hide what the machine itself knows."""
    given: S3Config = {}
    if place.endpoint:
        given["endpoint"] = place.endpoint
    if place.region:
        given["region"] = place.region
    if place.key:
        given["access_key_id"], given["secret_access_key"] = place.key, place.secret
    return given


def _read_code(error: Exception) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _translate(error: Exception, failed: str) -> StoreError:
    code, said = _read_code(error), str(error).partition("\n")[0][:300]
    if code in _FULL:
        return StoreFull(f"{failed}: {code}; free some space and send it again")
    if code in _FORBIDDEN or isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
        return StoreReadOnly(f"{failed}: {code or said}; give the key the right to read, write, list and delete there")
    return StoreUnavailable(f"{failed}: {code or said}; try again when the service answers")
