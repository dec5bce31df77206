"""What a command prints: tables for people, lines of JSON for programs, messages on standard error."""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import click

Painter = Callable[[str], str]

_GAP = "  "
_NARROWEST = 10
_HANGING = "  "
_COMMAND = re.compile("`[^`]*`")
_KEPT_SPACE = "\0"


def tell(message: str) -> None:
    """A message for the person, apart from the output; on a terminal it is folded between words."""
    for line in message.split("\n"):
        for part in fold(line, _HANGING) if sys.stderr.isatty() else [line]:
            # Not by click, which writes past a live view: that one would draw over the message.
            print(part, file=sys.stderr, flush=True)


def fold(text: str, hanging: str = "") -> list[str]:
    """The text in lines as wide as the terminal, those behind the first indented; what is not plain stays one line."""
    wide = _columns()
    if not text.isascii() or len(text) <= wide:
        return [text]
    import textwrap

    # A command in a message is copied as it stands: it is never parted inside a word or at a hyphen.
    room = max(_NARROWEST, wide)
    lines = textwrap.wrap(
        _keep_commands(text, room - len(hanging)),
        room,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT_SPACE, " ") for line in lines]


def _keep_commands(text: str, room: int) -> str:
    """The text with each command in it as one word, if a line has room for that."""

    def keep(found: re.Match[str]) -> str:
        return found[0].replace(" ", _KEPT_SPACE) if len(found[0]) <= room else found[0]

    return _COMMAND.sub(keep, text)


def _columns() -> int:
    """How wide the terminal is."""
    import shutil

    return shutil.get_terminal_size().columns


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

    room = max(_NARROWEST, _columns() - indent)
    return textwrap.wrap(text, room, break_on_hyphens=False)


def print_line(text: str) -> None:
    """One line, cut where the terminal ends."""
    click.echo(cut(text, _columns()) if sys.stdout.isatty() else text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], **paint: Painter) -> None:
    """Aligned columns; numbers to the right.

    On a terminal the last column is cut where the line ends, and cells of the columns in `paint` are coloured by it.
    """
    if sys.stdout.isatty():
        lines = lay_out(columns, rows, _columns(), **paint)
    else:
        lines = lay_out(columns, rows, None)
    for line in lines:
        click.echo(line)


def lay_out(columns: Sequence[str], rows: Iterable[Sequence[str]], wide: int | None, **paint: Painter) -> list[str]:
    """The lines of a table, the heading first; if a width is given the last column is cut there.

    Where that does not help, the widest columns of words are.
    """
    table = [tuple(columns), *(tuple(clean(cell) for cell in row) for row in rows)]
    widths = [max(map(measure, column)) for column in zip(*table, strict=True)]
    right = [all(_is_number(cell) for cell in column[1:]) for column in zip(*table, strict=True)]
    if wide is not None:
        _fit(widths, right, wide - len(_GAP) * (len(widths) - 1))
    heading, *lines = [list(map(_pad, row, widths, right)) for row in table]
    painters = [paint.get(name, str) for name in columns]
    painted = [[painter(cell) for painter, cell in zip(painters, line, strict=True)] for line in lines]
    return [_GAP.join(line).rstrip() for line in (heading, *painted)]


def _fit(widths: list[int], right: Sequence[bool], room: int) -> None:
    """Make the columns narrower until they have room: the last one first, none below `_NARROWEST`, numbers never."""
    widths[-1] = min(widths[-1], max(_NARROWEST, room - sum(widths[:-1])))
    words = [index for index, is_number in enumerate(right) if not is_number and widths[index] > _NARROWEST]
    while sum(widths) > room and words:
        widest = max(words, key=lambda index: widths[index])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1


def clean(text: str) -> str:
    """One line that no stored text can break or colour: what is not printable becomes a space."""
    return "".join(char if char.isprintable() else " " for char in text)


def clean_lines(text: str) -> str:
    """As `clean`, with the lines that the text has: a traceback is read line by line."""
    return "\n".join(clean(line.expandtabs(4)) for line in text.split("\n"))


def last_line(text: str) -> str:
    """What a text says in the end: of a traceback the error, which may have more lines than its first."""
    lines = [line for line in text.split("\n") if line.strip()]
    deepest = max((index for index, line in enumerate(lines[:-1]) if line.startswith("  File ")), default=None)
    if deepest is None:
        return lines[-1].strip() if lines else ""
    return next((line for line in lines[deepest:] if not line.startswith(" ")), lines[-1]).strip()


def print_block(heading: str, text: str) -> None:
    """A text of several lines below its heading."""
    click.echo(f"\n{heading}")
    for line in clean_lines(text.strip("\n")).split("\n"):
        click.echo(f"{_GAP}{line}".rstrip())


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
