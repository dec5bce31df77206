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


_MANY = 1_000
"""Fewer tasks than this are stored before anybody could read about it."""


@contextmanager
def show_storing(count: int) -> Iterator[None]:
    """Say that so many tasks are being stored: all or none, in one step, so there is a clock and no part of it."""
    if count < _MANY or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(f"storing {count:,} tasks"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task("storing", total=None)
        yield
