"""Tasks as documents: the fields of the protocol, with the parameters under both of their names."""

from collections.abc import Sequence
from typing import Any, Final

from ganger.core.errors import PayloadTooLarge
from ganger.core.state import is_final
from ganger.core.task import EXIT, PLUGIN, Task
from ganger.faces.disbatch.backend import DisbatchBackend
from ganger.wire.disbatch.making import read_parameters
from ganger.wire.disbatch.params import Options
from ganger.wire.disbatch.words import CMD_ERR, CMD_EXIT, TERSE, UNCLAIMED, read_exit, say_time

_LARGEST_SPEC: Final = 1 << 20
_LONGEST_EXIT: Final = 11
_PRINTED: Final = ("stdout", "stderr")


class Teller:
    """Writes the documents of one answer, and stops when they are too much for one."""

    def __init__(self, backend: DisbatchBackend, options: Options) -> None:
        self._backend = backend
        self._options = options
        self._left = backend.limits.answer

    async def tell_all(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        faces, queues = await self._backend.faces.name_tasks(tasks), await self._backend.faces.name_queues()
        pairs = zip(tasks, faces, strict=True)
        return [await self._tell(task, face, queues.get(task.queue)) for task, face in pairs]

    async def _tell(self, task: Task, face: str, queue: str | None) -> dict[str, Any]:
        epoch = self._options.epoch
        told: dict[str, Any] = {
            "_id": face,
            "id": face,
            "queue": queue,
            "status": task.status,
            "ctime": say_time(task.created, epoch),
            "mtime": say_time(task.modified, epoch),
        }
        if self._wants("node"):
            told["node"] = await self._backend.name_node(task) or UNCLAIMED
        if self._wants("parameters", "params"):
            told["parameters"] = told["params"] = await self._read_parameters(task)
        for stream in filter(self._wants, _PRINTED):
            told[stream] = await self._read_output(task, face, stream)
        told |= await self._tell_end(task)
        return {name: value for name, value in told.items() if name == "_id" or self._wants(name)}

    async def _tell_end(self, task: Task) -> dict[str, Any]:
        """How the process of a plugin ended, in the words of later releases; nothing where that is not known."""
        if not (task.status > 0 and task.kind.startswith(PLUGIN) and self._wants(CMD_EXIT, CMD_ERR)):
            return {}
        exited = read_exit((await self._backend.engine.read_data(task.id, EXIT, 0, _LONGEST_EXIT)).body)
        failed = {CMD_ERR: task.reason} if task.reason and task.status > 1 else {}
        return failed if exited is None else {CMD_EXIT: exited, **failed}

    def _wants(self, *names: str) -> bool:
        return not self._options.fields or not self._options.fields.isdisjoint(names)

    async def _read_parameters(self, task: Task) -> Any:
        if task.spec_size > _LARGEST_SPEC:
            return None
        part = await self._backend.engine.read_data(task.id, "spec", 0, _LARGEST_SPEC)
        self._spend(len(part.body))
        return read_parameters(task.kind, part.body)

    async def _read_output(self, task: Task, face: str, stream: str) -> str | None:
        """What a task printed, null before its end. What is long is told by the task's id unless all is wanted."""
        if not is_final(task.status):
            return None
        most = self._left if self._options.full else self._backend.limits.inline
        part = await self._backend.engine.read_output(task.id, stream, 0, max(1, most))
        if part.size > most and not self._options.full:
            return face
        if self._options.terse:
            return TERSE if part.size else ""
        self._spend(part.size)
        return part.body.decode("utf-8", "replace")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            limit = self._backend.limits.answer
            raise PayloadTooLarge(
                f"the answer has more than {limit} bytes: ask for fewer tasks, without .full, or with .fields",
                limit=limit,
            )
