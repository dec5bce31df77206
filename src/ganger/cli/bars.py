"""A bar on standard error while a person watches how many of many are done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Seen = Callable[[int], None]


@contextmanager
def show_count(word: str, total: int) -> Iterator[Seen]:
    """Call what it gives with the number that is done. Without a terminal nothing is shown."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(word), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(word, total=total)
        yield lambda done: bar.update(shown, completed=done)
