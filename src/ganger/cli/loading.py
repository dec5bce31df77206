"""Commands by name, each loaded when it is first asked for: one command does not pay for the others."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class Commands(MutableMapping[str, click.Command]):
    """The commands of a group. `places` says for each name the module of this package and the command in it."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(f"ganger.cli.{module}"), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._places, **self._loaded})

    def __len__(self) -> int:
        return len({**self._places, **self._loaded})
