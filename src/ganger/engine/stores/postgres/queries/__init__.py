"""The statements of the store, one per file; `Q.name` is the text of `name.sql`."""

from types import SimpleNamespace
from typing import Final

from ganger.databases.postgres import load_queries

Q: Final = SimpleNamespace(**load_queries(__name__, "."))
