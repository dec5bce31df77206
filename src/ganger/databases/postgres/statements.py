"""The statements that every schema needs, whatever is in it; `Q.name` is the text of `name.sql`."""

from types import SimpleNamespace
from typing import Final

from ganger.databases.statements import load_queries

Q: Final = SimpleNamespace(**load_queries("ganger.databases", "postgres/queries"))
