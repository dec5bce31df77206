"""Values of any size: read from begin to end as a stream, or passed by this process where the storage can do that."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from ganger.core.errors import BadInput, PayloadTooLarge
from ganger.core.ids import TaskId
from ganger.engine.blob import BlobRef, Sharing, Upload, parse_hash
from ganger.engine.output import Places


class Content(NamedTuple):
    """A value as it was when it was looked up: here if it is small, else safe under a name of its own."""

    size: int
    body: bytes = b""
    blob: BlobRef | None = None


class Contents:
    """The values of one store, as streams and addresses."""

    def __init__(self, places: Places) -> None:
        self._places = places

    async def find(self, task: TaskId, key: str) -> Content:
        """A named value of a task; one that is not there is empty. Uses: value."""
        value = await self._places.store.value(task, key, 0, self._places.limits.payload + 1)
        if value.blob is None:
            body = value.body or b""
            return Content(len(body), body)
        return Content(value.size, blob=BlobRef(parse_hash(value.blob), value.size))

    async def pour(self, content: Content) -> AsyncGenerator[bytes, None]:
        """All of it, in one piece if it is small; every byte is verified before it is handed over.

        Raises BlobMissing and BlobCorrupt. Use `contextlib.aclosing` to leave early.
        """
        if content.blob is None:
            yield content.body
            return
        if self._places.blobs is None:
            raise PayloadTooLarge("this engine has no place for blobs: give it one")
        async with aclosing(self._places.blobs.read(content.blob)) as pieces:
            async for piece in pieces:
                yield piece

    async def share(self, content: Content) -> str | None:
        """An address from which anybody can get a large value for some hours, without a token.

        None if it is small, or if the storage cannot do that.
        """
        sharing = self._find_sharing()
        return None if sharing is None or content.blob is None else await sharing.share(content.blob)

    async def offer(self) -> Upload | None:
        """An address to which anybody can send a value for some hours; None if the storage has none."""
        sharing = self._find_sharing()
        return None if sharing is None else await sharing.offer()

    async def adopt(self, upload: str, most: int) -> BlobRef:
        """Take in what was sent there, at most so many bytes: it is read here once, and then safe.

        Raises NotFound if nothing was sent, or it was taken in before; PayloadTooLarge; BadInput for no upload.
        """
        sharing = self._find_sharing()
        if sharing is None:
            raise BadInput("the storage of this server has no addresses to upload to: send the content itself")
        return await sharing.adopt(upload, most)

    def _find_sharing(self) -> Sharing | None:
        return self._places.blobs if isinstance(self._places.blobs, Sharing) else None
