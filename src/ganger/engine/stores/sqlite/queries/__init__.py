"""The statements of the store, one per file; `Q.name` is the text of `name.sql`.

Each is read when it is first asked for, so that a glance reads only its own. Whoever stays reads all of them first: the
files may be those of another version by the time at which one is needed.
"""

from typing import Final

from ganger.databases.sqlite import list_files, load_queries, load_query


class Queries:
    """The texts by their names, as attributes."""

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        text = load_query(__name__, ".", name)
        setattr(self, name, text)
        return text

    def names(self) -> list[str]:
        return [file.stem for file in list_files(__name__, ".")]


APPLICATION: Final = "ganger"
"""Whose file it is."""

Q: Final = Queries()


def load_all() -> None:
    """Have every statement at hand from now on."""
    vars(Q).update(load_queries(__name__, "."))
