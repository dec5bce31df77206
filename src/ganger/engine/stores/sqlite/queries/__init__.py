"""The statements of the store, one per file; `Q.name` is the text of `name.sql`."""

from typing import Final

from ganger.databases.sqlite import load_queries


class Queries:
    """The texts by their names, as attributes."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.__dict__.update(texts)

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"there is no {name}.sql")

    def names(self) -> list[str]:
        return sorted(self.__dict__)


Q: Final = Queries(load_queries(__name__, "."))
