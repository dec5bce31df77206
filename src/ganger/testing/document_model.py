"""A state machine that asks two places for versioned documents the same, and compares every answer.

Whoever writes a backend inherits `DocumentMachine` and says how the model and the backend are opened. Every version
that was ever seen is kept, with its twin on the other side, so stale writers come back again and again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ganger.coordination.backend import Backend, Version
from ganger.core.errors import GangerError

NAMES: Final = st.sampled_from(["lock/a", "lock/b", "lock/a/b", "member/ü ?", "member/.."])
_SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
)
_FIELDS: Final = st.sampled_from(["holder", "expire", "task", "state", "nodes", "a-b", "A_1"])
DOCUMENTS: Final = st.dictionaries(
    _FIELDS,
    st.recursive(
        _SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
_PICK: Final = st.integers(0, 1 << 16)
Opened = AbstractAsyncContextManager[Backend]
Twins = tuple[Version | None, Version | None]
"""A version of the model, and that which the backend gave to the same write."""


class DocumentMachine(RuleBasedStateMachine):
    """Two backends, the same requests."""

    def open_model(self) -> Opened:
        raise NotImplementedError

    def open_backend(self) -> Opened:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, list[Twins]] = {}
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.model, self.tested = self._runner.run(self._open())

    async def _open(self) -> tuple[Backend, Backend]:
        model = await self._stack.enter_async_context(self.open_model())
        return model, await self._stack.enter_async_context(self.open_backend())

    def teardown(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    @rule(name=NAMES, document=DOCUMENTS, pick=_PICK)
    def write_behind_some_version(self, name: str, document: dict[str, Any], pick: int) -> None:
        old = self._choose(name, pick)
        self._write(name, document, old)

    @rule(name=NAMES, document=DOCUMENTS)
    def write_behind_the_last(self, name: str, document: dict[str, Any]) -> None:
        self._write(name, document, self._last(name))

    @rule(name=NAMES, pick=_PICK)
    def delete_some_version(self, name: str, pick: int) -> None:
        self._delete(name, self._choose(name, pick))

    @rule(name=NAMES)
    def delete_the_last(self, name: str) -> None:
        self._delete(name, self._last(name))

    @rule(name=NAMES)
    def read(self, name: str) -> None:
        expected, seen = self._both(lambda backend: backend.read(name))
        assert expected.document == seen.document
        assert (expected.version, seen.version) in [*self.versions.get(name, []), (None, None)]

    @rule(prefix=st.sampled_from(["", "lock/", "lock/a", "member/", "none"]), fields=st.lists(_FIELDS, max_size=3))
    def list_some(self, prefix: str, fields: list[str]) -> None:
        if self.tested.capabilities.lag:
            return
        expected, seen = self._both(lambda backend: backend.list(prefix, fields))
        assert [(entry.name, entry.fields) for entry in expected.entries] == [
            (entry.name, entry.fields) for entry in seen.entries
        ]

    def _write(self, name: str, document: dict[str, Any], old: Twins) -> None:
        expected, seen = self._each(self.model.write(name, document, old[0]), self.tested.write(name, document, old[1]))
        assert _kind(expected) == _kind(seen)
        if not isinstance(expected, GangerError):
            given = (expected.version, seen.version)
            known = self.versions.setdefault(name, [])
            assert all(seen.version != other for _, other in known), "a version was given twice"
            assert old[1] is None or seen.version > old[1]
            known.append(given)

    def _delete(self, name: str, old: Twins) -> None:
        if old[0] is not None and old[1] is not None:
            expected, seen = self._each(self.model.delete(name, old[0]), self.tested.delete(name, old[1]))
            assert _kind(expected) == _kind(seen)

    def _choose(self, name: str, pick: int) -> Twins:
        known: list[Twins] = [(None, None), *self.versions.get(name, [])]
        return known[pick % len(known)]

    def _last(self, name: str) -> Twins:
        found = self._runner.run(self.model.read(name)).version
        return next((twins for twins in self.versions.get(name, []) if twins[0] == found), (None, None))

    def _both(self, ask: Callable[[Backend], Awaitable[Any]]) -> tuple[Any, Any]:
        return self._each(ask(self.model), ask(self.tested))

    def _each(self, first: Awaitable[Any], second: Awaitable[Any]) -> tuple[Any, Any]:
        return self._runner.run(_answer(first)), self._runner.run(_answer(second))


async def _answer(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except GangerError as error:
        return error


def _kind(answer: Any) -> type | None:
    return type(answer) if isinstance(answer, GangerError) else None
