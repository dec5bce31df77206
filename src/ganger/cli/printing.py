"""What a command prints: tables for people, lines of JSON for programs, messages on standard error."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import click

_GAP = "  "
_NARROWEST = 10


def tell(message: str) -> None:
    """A message for the person, apart from the output."""
    click.echo(message, err=True)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Names and values below each other; what is empty is left out."""
    wide = max((len(name) for name, value in pairs.items() if value), default=0)
    for name, value in pairs.items():
        for index, line in enumerate(_fold(value, wide + len(_GAP))):
            click.echo(f"{'' if index else name:<{wide}}{_GAP}{line}")


def _fold(text: str, indent: int) -> list[str]:
    """The text in lines that fit beside an indent, on a terminal; elsewhere, and if it is not plain, as it is."""
    if not text or not sys.stdout.isatty() or not text.isascii():
        return [text] if text else []
    import textwrap

    return textwrap.wrap(text, max(_NARROWEST, shutil.get_terminal_size().columns - indent))


def print_line(text: str) -> None:
    """One line, cut where the terminal ends."""
    click.echo(cut(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns; numbers to the right. On a terminal the last column is cut where the line ends."""
    table = [tuple(columns), *(tuple(clean(cell) for cell in row) for row in rows)]
    widths = [max(map(measure, column)) for column in zip(*table, strict=True)]
    right = [all(_is_number(cell) for cell in column[1:]) for column in zip(*table, strict=True)]
    if sys.stdout.isatty():
        used = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_NARROWEST, shutil.get_terminal_size().columns - used))
    for row in table:
        cells = [_pad(cell, wide, at_right) for cell, wide, at_right in zip(row, widths, right, strict=True)]
        click.echo(_GAP.join(cells).rstrip())


def clean(text: str) -> str:
    """One line that no stored text can break or colour: what is not printable becomes a space."""
    return "".join(char if char.isprintable() else " " for char in text)


def measure(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _pad(text: str, wide: int, at_right: bool) -> str:
    text = cut(text, wide)
    fill = " " * (wide - measure(text))
    return fill + text if at_right else text + fill


def cut(text: str, wide: int) -> str:
    """The text in at most so many columns; an ellipsis says that there was more."""
    if measure(text) <= wide:
        return text
    taken, room = "", wide - 1
    for char in text:
        room -= _width(char)
        if room < 0:
            break
        taken += char
    return f"{taken}…"


def _is_number(cell: str) -> bool:
    return cell in {"", "-"} or cell.isdecimal()
