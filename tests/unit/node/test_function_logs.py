"""What functions log by `logging`: shown on the stream of their task, unless their program shows it itself."""

import io
import logging
from collections.abc import Iterator

import pytest

from ganger.node.functions.context import CURRENT, Context
from ganger.node.functions.logs import hear_logging, set_level


class Desk:
    """Keeps what is written, by stream."""

    def __init__(self) -> None:
        self.streams: dict[str, io.StringIO] = {}

    def open(self, context: Context, stream: str) -> io.StringIO:
        return self.streams.setdefault(stream, io.StringIO())

    def say(self, seq: int, percent: float | None, info: str | None) -> None: ...

    def is_unwanted(self, seq: int) -> bool:
        return False


@pytest.fixture
def plain_root() -> Iterator[logging.Logger]:
    """The root logger, which is left as it was."""
    root = logging.getLogger()
    level = root.level
    yield root
    root.handlers[:] = [each for each in root.handlers if type(each).__module__ != hear_logging.__module__]
    root.setLevel(level)


def _begin(root: logging.Logger, level: str) -> None:
    """As in a process in which nobody has configured logging: pytest's own handlers are out of the way."""
    root.handlers.clear()
    set_level(level)
    hear_logging()


def test_a_line_has_its_level_and_its_logger_and_goes_to_the_task(plain_root: logging.Logger) -> None:
    desk = Desk()
    token = CURRENT.set(Context(desk, 1, 7, 1, 1))
    _begin(plain_root, "info")
    hear_logging()

    logging.getLogger("shop").info("sold %d", 3)
    logging.getLogger("shop").debug("nobody asked")
    CURRENT.reset(token)

    (line,) = desk.streams["log"].getvalue().splitlines()
    assert line.endswith(" INFO shop: sold 3")


def test_the_level_says_what_is_left_out(plain_root: logging.Logger) -> None:
    desk = Desk()
    token = CURRENT.set(Context(desk, 1, 7, 1, 1))
    _begin(plain_root, "error")

    logging.getLogger("shop").warning("low on stock")
    logging.getLogger("shop").error("out of stock")
    CURRENT.reset(token)

    assert desk.streams["log"].getvalue().count("stock") == 1


def test_a_program_that_configures_logging_keeps_what_it_configured(plain_root: logging.Logger) -> None:
    own = logging.StreamHandler(io.StringIO())
    plain_root.handlers.clear()
    plain_root.addHandler(own)

    hear_logging()

    assert plain_root.handlers == [own]


def test_what_a_thread_without_a_task_logs_goes_where_it_prints(
    plain_root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    _begin(plain_root, "info")

    logging.getLogger("shop").info("closing time")

    assert "INFO shop: closing time" in capsys.readouterr().err
