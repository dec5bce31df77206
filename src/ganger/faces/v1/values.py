"""The named values of a task, wherever they come from: its spec, its streams, or data beside them."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganger.core.errors import NotFound, StalePage
from ganger.core.ids import Fence, TaskId
from ganger.core.state import is_final
from ganger.core.task import Kind, Task
from ganger.engine.store import Look
from ganger.faces.v1.backend import Backend
from ganger.wire.v1.specs import MADE_BY_RUNS, RESULT, STREAMS, list_spec_keys, show_spec
from ganger.wire.v1.values import JSON, MARK, Shown, ValueIn, pack, show, show_piece

SPEC: Final = "spec"
_ATTEMPTS: Final = 100
_SPEAKING: Final = frozenset({Kind.COMMAND, Kind.SHELL})
_SILENT: Final = hashlib.sha256().hexdigest()
_INLINE: Final = 64 << 10
"""A value up to this size is shown with its task."""


class Piece(NamedTuple):
    """Bytes of a value from `start` on; `growing`: more may be added to it."""

    body: bytes
    start: int
    size: int
    version: str
    mark: str | None
    growing: bool = False

    def show(self) -> Shown:
        end = self.start + len(self.body)
        if self.start == 0 and end == self.size:
            return show(self.body, self.mark)
        return show_piece(self.body, self.mark, whole=end >= self.size)


class Part(NamedTuple):
    """Which part of a value, and of which version of it if that matters."""

    start: int
    most: int
    version: str | None = None


class Values:
    """Reads the values of tasks."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.engine

    async def read_spec(self, task: Task) -> bytes:
        return (await self._engine.read_data(task.id, SPEC, 0, self._engine.limits.payload)).body

    def list_keys(self, look: Look, spec: bytes) -> list[str]:
        """All keys of a task that have a value."""
        beside = {key for key in look.keys if key != SPEC and not key.startswith(MARK)}
        said = STREAMS if RESULT in beside and look.task.kind in _SPEAKING else set(look.streams) & set(STREAMS)
        return sorted({*show_spec(look.task.kind, spec), *beside, *said})

    async def read(self, task: Task, key: str, part: Part) -> Piece:
        """A part of a value; NotFound if there is none, StalePage if it is another by now."""
        if key in list_spec_keys(task.kind) or key == SPEC:
            return _cut(key, show_spec(task.kind, await self.read_spec(task)), part)
        if key in STREAMS and (piece := await self._read_stream(task, key, part)) is not None:
            return piece
        return await self._read_beside(task, key, part)

    async def _read_beside(self, task: Task, key: str, part: Part) -> Piece:
        page = await self._engine.read_page(task.id, key, *part)
        if page.version is None and key in STREAMS and await self._has_run(task):
            return Piece(b"", 0, 0, _SILENT, None)
        if page.version is None:
            raise NotFound(f"task {task.id} has no value {key!r:.80}", key=key[:200])
        return Piece(page.body, page.start, page.size, page.version, await self.read_mark(task.id, key))

    async def _has_run(self, task: Task) -> bool:
        """Has it a result? Then what it did not write is empty, and not missing."""
        return task.kind in _SPEAKING and (await self._engine.read_data(task.id, RESULT, 0, 1)).size > 0

    async def read_mark(self, task: TaskId, key: str) -> str | None:
        if key in MADE_BY_RUNS:
            return JSON if key == RESULT else None
        return (await self._engine.read_data(task, f"{MARK}{key}", 0, 16)).body.decode("ascii", "replace") or None

    async def _read_stream(self, task: Task, stream: str, part: Part) -> Piece | None:
        """A part of what one attempt wrote. Its page id names the attempt: what was written there never changes."""
        fences = await self._fences(task) if part.version is None else _read_fence(part.version)
        if task.fence in fences:
            await self._backend.hear(task, stream, part.start)
        for fence in fences:
            found = await self._engine.read_output(task.id, stream, part.start, part.most, Fence(fence))
            if found.size:
                growing = fence == task.fence and not is_final(task.status)
                return Piece(found.body, part.start, found.size, str(fence), None, growing)
        return None

    async def _fences(self, task: Task) -> Sequence[int]:
        attempts = (await self._engine.look(task.id, _ATTEMPTS)).attempts
        return list(dict.fromkeys([task.fence, *(attempt.fence for attempt in reversed(attempts))]))

    async def show_all(self, look: Look) -> tuple[dict[str, Any], list[str]]:
        """The small values of a task, and the keys of the large ones."""
        spec = await self.read_spec(look.task)
        told, large = show_spec(look.task.kind, spec), []
        for key in self.list_keys(look, spec):
            if key in told:
                continue
            piece = await self.read(look.task, key, Part(0, _INLINE))
            if len(piece.body) < piece.size:
                large.append(key)
            else:
                told[key] = piece.show().data
        return told, large


def _read_fence(version: str) -> list[int]:
    """The attempt that a page id names; none if it names something else."""
    return [int(version)] if version.isascii() and version.isdecimal() and len(version) < 19 else []


def _cut(key: str, spec: dict[str, Any], part: Part) -> Piece:
    """A part of a value that is in the spec."""
    if key not in spec:
        raise NotFound(f"the task has no value {key!r:.80}", key=key[:200])
    content, mark = pack(ValueIn(spec[key]))
    version = hashlib.sha256(content).hexdigest()
    if part.version not in (None, version):
        raise StalePage(f"the value {key!r:.80} has changed since that page: begin again", key=key)
    return Piece(content[part.start : part.start + part.most], part.start, len(content), version, mark)
