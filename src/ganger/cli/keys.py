"""Keys of a person at the terminal, one by one and without Enter; the terminal is left as it was."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

UP: Final = "up"
DOWN: Final = "down"
ENTER: Final = "enter"
ESCAPE: Final = "escape"
TAB: Final = "tab"
END: Final = "end of input"

_SEQUENCES: Final = {
    b"\x1b[A": UP, b"\x1bOA": UP, b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"\r": ENTER, b"\n": ENTER, b"\t": TAB,
}  # fmt: skip
_ESC: Final = 0x1B


def read_keys(typed: bytes) -> list[str]:
    """The keys in what a terminal sent at once: names for those without a character, the character for the others."""
    keys, at = [], 0
    while at < len(typed):
        known = next((each for each in _SEQUENCES if typed.startswith(each, at)), None)
        if known is not None:
            keys.append(_SEQUENCES[known])
            at += len(known)
        elif typed[at] == _ESC and at + 1 < len(typed) and typed[at + 1 : at + 2] in b"[O":
            at = _skip(typed, at + 2)
        else:
            keys.append(ESCAPE if typed[at] == _ESC else chr(typed[at]))
            at += 1
    return keys


def _skip(typed: bytes, at: int) -> int:
    """Behind the end of a sequence that nobody asked for, such as that of a function key."""
    while at < len(typed) and not chr(typed[at]).isalpha() and typed[at] != ord("~"):
        at += 1
    return at + 1


@contextmanager
def heed_keys(press: Callable[[str], None]) -> Iterator[None]:
    """Have each key told, and `END` at a signal that ends the program or at the end of the input."""
    import asyncio
    import signal
    import termios
    import tty

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, press, END)
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, _hear, terminal, press)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _hear(terminal: int, press: Callable[[str], None]) -> None:
    import os

    typed = os.read(terminal, 1024)
    for key in read_keys(typed) if typed else [END]:
        press(key)
