"""Tables that can take back what a step wrote, and indexes that follow them by themselves.

The rows are the truth. An index is a function of a row (which bucket, which place in it), and the table alone keeps it:
it takes the old row out and puts the new one in, whoever wrote it and also when a step is undone. So no operation can
forget an index, and none can be left wrong by an error half way through a step.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Place = tuple[Hashable, Any] | None
"""The bucket and the sorting key of a row in an index; None where the index leaves it out."""


class Index(Generic[V]):
    """Rows in buckets, each bucket in the order of its keys."""

    def __init__(self, place: Callable[[V], Place]) -> None:
        self._place = place
        self._buckets: dict[Hashable, list[Any]] = {}

    def bucket(self, name: Hashable) -> Sequence[Any]:
        """The keys of a bucket in their order: live, so it changes with the rows."""
        return self._buckets.get(name, ())

    def names(self) -> list[Any]:
        return list(self._buckets)

    def swap(self, old: V | None, new: V | None) -> None:
        before = None if old is None else self._place(old)
        after = None if new is None else self._place(new)
        if before == after:
            return
        if before is not None:
            self._take(*before)
        if after is not None:
            insort(self._buckets.setdefault(after[0], []), after[1])

    def _take(self, name: Hashable, key: Any) -> None:
        keys = self._buckets[name]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._buckets[name]


class Journal:
    """What a step wrote, in order, so that an error can take it back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def note(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def keep(self) -> None:
        self._undo.clear()

    def take_back(self) -> None:
        while self._undo:
            self._undo.pop()()


class Table(Generic[K, V]):
    """Rows by key. Values are never changed in place: a row is put again."""

    def __init__(self, journal: Journal, indexes: Iterable[Index[V]] = ()) -> None:
        self._journal = journal
        self._indexes = tuple(indexes)
        self._rows: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: K) -> V | None:
        return self._rows.get(key)

    def values(self) -> Iterable[V]:
        return self._rows.values()

    def put(self, key: K, row: V) -> None:
        self._write(key, row)

    def drop(self, key: K) -> None:
        self._write(key, None)

    def _write(self, key: K, row: V | None) -> None:
        old = self._rows.get(key)
        self._set(key, old, row)
        self._journal.note(lambda: self._set(key, row, old))

    def _set(self, key: K, old: V | None, new: V | None) -> None:
        for index in self._indexes:
            index.swap(old, new)
        if new is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = new
