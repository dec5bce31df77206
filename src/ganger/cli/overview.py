"""Lists of commands, as `--help` shows them: by what they are for, each in one line."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import click

_SECTIONS: Final = {
    "Give work": ("run", "submit", "map", "graph", "if", "until", "schedule"),
    "Do work": ("up", "top", "server", "worker", "workers", "nodes", "node", "drain", "systemd"),
    "See": ("ls", "show", "logs", "result", "wait", "why", "stats", "events"),
    "Change": ("edit", "hold", "kick", "cancel", "kill", "retry", "rm", "queue", "disbatch"),
    "Inside a task": ("progress", "add", "family"),
    "Agree": ("lock", "leader", "members"),
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As ever; who misspells a command is told the one that was meant."""
        if args[0] not in self.commands and (near := _find_near(args[0], self.list_commands(ctx))):
            ctx.fail(f"No such command {args[0]!r:.80}. Did you mean {near}?")
        return super().resolve_command(ctx, args)

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


def _find_near(word: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    return " or ".join(get_close_matches(word, names, n=2))


def _sum_up(command: click.Command | None, room: int) -> str:
    """The first sentence of its help, or as many clauses of it as have room."""
    if command is None:
        return ""
    text = command.get_short_help_str(limit=10_000).rstrip(".")
    ends = [found.start() for found in _CLAUSE.finditer(text)]
    fitting = [end for end in (*ends, len(text)) if end <= room]
    return text[: fitting[-1]] if fitting else command.get_short_help_str(limit=room)
