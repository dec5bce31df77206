"""What a step reads and writes: rows as they lie in the database, and what the step makes of them.

A step reads through a draft, which remembers each row that it has seen, and writes into it alone. So it sees what it
wrote itself, an error can take everything back that a part of it wrote, and the database learns of it only when the
whole step is committed, as a list of changes (see `journal.py`).

A question over many rows (`Choice`) is asked of the database about all that the step has not written, and of the draft
about what it has. The two say the same twice, once for the server and once here; tests compare them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pymongo.asynchronous.database import AsyncDatabase

Doc = dict[str, Any]
Place = tuple[str, Any]
"""A collection, and the key of a row in it."""

V = TypeVar("V")
INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True)
class Table(Generic[V]):
    """A collection and how its rows are written down.

    `encode` gives fields by dotted names, `key` is the one by which rows are known, `key_of` a row's. A write is made
    only if the fields of `watched` are as they were read: strangers may change them. What is `last` is applied after
    all else. `blank` are the values that need not be there.
    """

    name: str
    decode: Callable[[Doc], V]
    encode: Callable[[V], Doc]
    key_of: Callable[[V], Any]
    key: str = "_id"
    version: str = "v"
    watched: tuple[str, ...] = ()
    last: bool = False
    blank: Mapping[str, Any] = field(default_factory=dict)


Wording = Mapping[str, Table[Any]]
"""The tables of which this database has the rows in other words than usual, by their names."""


class Choice(NamedTuple, Generic[V]):
    """Some rows of a table in an order: as the server is asked for them, and as the same is said of a row here."""

    table: Table[V]
    where: Doc
    fits: Callable[[V], bool]
    order: tuple[tuple[str, int], ...] = ()
    rank: Callable[[V], Any] | None = None


class Change(NamedTuple):
    """One change of one document, to be made once; `guard` are the fields that must be as they were.

    `seen` is the number of the step that wrote it last, as it was read.
    """

    table: str
    what: str
    id: Any
    fields: Doc
    guard: Doc
    version: str
    last: bool
    seen: int | None = None


@dataclass(slots=True)
class _Known:
    """A row as it lies there (None: there is none), its document's id, and what the step found out on the way."""

    stored: Any
    id: Any = None
    seen: int | None = None
    guard: Doc = field(default_factory=dict)
    extra: Doc = field(default_factory=dict)
    adopted: bool = False


class Draft:
    def __init__(self, database: AsyncDatabase[Doc], wording: Wording) -> None:
        self._database = database
        self._wording = wording
        self._known: dict[Place, _Known] = {}
        self._rows: dict[Place, Any] = {}
        self._written: dict[str, dict[Any, Table[Any]]] = {}
        self._undo: list[tuple[Place, Any, bool]] = []

    async def get(self, table: Table[V], key: Any) -> V | None:
        place = (table.name, key)
        if place not in self._rows:
            await self.load(table, [key])
        row: V | None = self._rows[place]
        return row

    def at_hand(self, table: Table[V], key: Any) -> V | None:
        """The row, if it was loaded or written before."""
        row: V | None = self._rows.get((table.name, key))
        return row

    def is_known(self, table: Table[Any], key: Any) -> bool:
        """Was it looked for before? It may turn out not to be there."""
        return (table.name, key) in self._rows

    async def load(self, table: Table[Any], keys: Iterable[Any]) -> None:
        """Know these rows from now on."""
        missing = [key for key in dict.fromkeys(keys) if (table.name, key) not in self._rows]
        if not missing:
            return
        where = {table.key: missing[0] if len(missing) == 1 else {"$in": missing}}
        for document in await self._database[table.name].find(where).to_list():
            self.learn(table, document)
        for key in missing:
            if (table.name, key) not in self._rows:
                self._rows[table.name, key] = None
                self._known[table.name, key] = _Known(None)

    def learn(self, table: Table[V], document: Doc) -> V:
        """The row of a document that was read elsewhere; one that the step knows already stays as it is."""
        row: V = self._worded(table).decode(document)
        place = (table.name, table.key_of(row))
        if place not in self._rows:
            self._rows[place] = row
            guard = {name: document.get(name) for name in table.watched}
            self._known[place] = _Known(row, document["_id"], _dig(document, table.version), guard)
        known: V = self._rows[place]
        return known

    def _worded(self, table: Table[Any]) -> Table[Any]:
        return self._wording.get(table.name, table)

    def put(self, table: Table[V], row: V) -> V:
        self._write(table, (table.name, table.key_of(row)), row)
        return row

    def drop(self, table: Table[Any], key: Any) -> None:
        self._write(table, (table.name, key), None)

    def recognise(self, table: Table[V], id: Any, row: V, guard: Doc) -> V:
        """Know the row of a stranger's document, and write nothing. When it is written, what is ours is added.

        Of that only what is not blank: whoever decodes it knows what a field that is not there stands for.
        """
        place = (table.name, table.key_of(row))
        if self._rows.get(place) is None and place[1] not in self._written.get(place[0], {}):
            self._known[place] = _Known(row, id, guard=guard, adopted=True)
            self._rows[place] = row
        known: V = self._rows[place]
        return known

    def grab(self, table: Table[Any], key: Any, guard: Doc, extra: Doc) -> None:
        """A condition was written ahead of the step: its own write now asks for that, and sets these fields too."""
        known = self._known[table.name, key]
        known.guard, known.extra = guard, extra

    def _write(self, table: Table[Any], place: Place, row: Any) -> None:
        written = self._written.setdefault(place[0], {})
        self._undo.append((place, self._rows.get(place), place[1] in written))
        self._known.setdefault(place, _Known(None))
        self._rows[place] = row
        written[place[1]] = table

    def mark(self) -> int:
        return len(self._undo)

    def take_back(self, mark: int) -> None:
        """Forget what was written since the mark."""
        while len(self._undo) > mark:
            place, row, was_written = self._undo.pop()
            self._rows[place] = row
            if not was_written:
                self._written[place[0]].pop(place[1], None)

    async def select(self, choice: Choice[V], most: int | None = None) -> list[V]:
        """The first rows of a choice, as they are in this step."""
        if most is not None and most <= 0:
            return []
        found = self._database[choice.table.name].find(self._where(choice))
        if choice.order:
            found = found.sort(list(choice.order))
        if most is not None:
            found = found.limit(most)
        rows: list[V] = [self.learn(choice.table, document) for document in await found.to_list()]
        rows += self._own(choice)
        if choice.rank is not None:
            rows.sort(key=choice.rank)
        return rows[:most]

    async def count(self, choice: Choice[Any]) -> int:
        stored = await self._database[choice.table.name].count_documents(self._where(choice))
        return stored + len(self._own(choice))

    async def distinct(self, choice: Choice[V], name: str, value: Callable[[V], Any]) -> set[Any]:
        """The values of a field over a choice."""
        stored = await self._database[choice.table.name].distinct(name, self._where(choice))
        return {*stored, *(value(row) for row in self._own(choice))}

    def _where(self, choice: Choice[Any]) -> Doc:
        own = list(self._written.get(choice.table.name, ()))
        return {"$and": [choice.where, {choice.table.key: {"$nin": own}}]} if own else choice.where

    def _own(self, choice: Choice[V]) -> list[V]:
        name = choice.table.name
        rows = (self._rows[name, key] for key in self._written.get(name, ()))
        return [row for row in rows if row is not None and choice.fits(row)]

    def changes(self) -> list[Change]:
        """What the step changes, table by table in the order of writing."""
        places = [((name, key), table) for name, keys in self._written.items() for key, table in keys.items()]
        found = [self._change(place, table) for place, table in places]
        return [change for change in found if change is not None]

    def _change(self, place: Place, table: Table[Any]) -> Change | None:
        known, row = self._known[place], self._rows[place]
        if row is None:
            return None if known.stored is None else self._make(table, DELETE, known, {})
        encode = self._worded(table).encode
        fields = encode(row)
        if known.stored is None:
            return self._make(table, INSERT, _Known(None, fields["_id"]), fields)
        before = encode(known.stored)
        blank = table.blank if known.adopted else {}
        changed = {name: value for name, value in fields.items() if _is_new(name, value, before, known, blank)}
        changed |= known.extra
        return self._make(table, UPDATE, known, changed) if changed else None

    def _make(self, table: Table[Any], what: str, known: _Known, fields: Doc) -> Change:
        guard = known.guard if what == UPDATE else {}
        return Change(table.name, what, known.id, fields, guard, table.version, table.last, known.seen)


def _dig(document: Doc, name: str) -> Any:
    """The value of a dotted name."""
    outer, dot, inner = name.partition(".")
    return (document.get(outer) or {}).get(inner) if dot else document.get(name)


def _is_new(name: str, value: Any, before: Doc, known: _Known, blank: Mapping[str, Any]) -> bool:
    if known.adopted and name.startswith("ganger."):
        return name not in blank or blank[name] != value
    return name not in before or before[name] != value
