"""Lists of commands, as `--help` shows them: by what they are for, each in one line."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import click

_SECTIONS: Final = {
    "Give work": ("run", "submit", "map", "graph", "if", "until", "schedule"),
    "Do work": ("up", "top", "server", "worker", "nodes", "node", "drain", "systemd"),
    "See": ("ls", "show", "logs", "wait", "why", "stats", "events"),
    "Change": ("edit", "hold", "kick", "cancel", "kill", "retry", "rm", "queue"),
    "Inside a task": ("progress", "add", "family"),
    "Care": ("doctor", "backup", "restore", "export", "import", "audit", "token", "secret", "completion"),
}
_OTHER: Final = "Other"
_CLAUSE: Final = re.compile(r"[:;,] ")
_AROUND: Final = 6


class Brief(click.Group):
    """A group whose help says of each command what has room in one line, and no half of a sentence."""

    def divide(self, names: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
        """The sections of the list."""
        return [("Commands", names)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        room = formatter.width - _AROUND - max(map(len, names), default=0)
        for title, members in self.divide(names):
            with formatter.section(title):
                formatter.write_dl([(name, _sum_up(self.get_command(ctx, name), room)) for name in members])


class Overview(Brief):
    """The list of all commands; one that is in none of the sections is shown at the end."""

    def divide(self, names: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
        placed = {name for members in _SECTIONS.values() for name in members}
        for title, members in {**_SECTIONS, _OTHER: [name for name in names if name not in placed]}.items():
            if found := [name for name in members if name in names]:
                yield title, found


def _sum_up(command: click.Command | None, room: int) -> str:
    """The first sentence of its help, or as many clauses of it as have room."""
    if command is None:
        return ""
    text = command.get_short_help_str(limit=10_000).rstrip(".")
    ends = [found.start() for found in _CLAUSE.finditer(text)]
    fitting = [end for end in (*ends, len(text)) if end <= room]
    return text[: fitting[-1]] if fitting else command.get_short_help_str(limit=room)
