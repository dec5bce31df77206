"""What a condition can ask at all, whoever submits it: what is refused here could never be answered by any node."""

from typing import Final, assert_never
from urllib.parse import urlsplit

from ganger.core import expression
from ganger.core.errors import BadInput, BadNumber
from ganger.wire.specs import (
    AfterDelay,
    AtTime,
    CommandExits,
    ConditionSpec,
    Expression,
    FileThere,
    PortAnswers,
    Probe,
    UrlAnswers,
)

_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_HOST: Final = 253
_LATEST: Final = 1 << 53


def check_condition(spec: ConditionSpec) -> None:
    """BadInput: this can never be asked."""
    check_probe(spec.probe)
    _check_time("every", spec.every)
    if spec.deadline is not None:
        _check_time("deadline", spec.deadline)


def check_probe(probe: Probe) -> None:
    """BadInput: this can never be asked."""
    match probe:
        case AtTime(at):
            _check_time("at", at)
        case AfterDelay(ms):
            _check_time("ms", ms)
        case FileThere(path):
            check_path(path, "path")
        case PortAnswers(host, port):
            check_place(host, port)
        case UrlAnswers():
            _check_url(probe)
        case CommandExits():
            check_command(probe)
        case Expression(text):
            expression.check(text)
        case _:
            assert_never(probe)


def _check_time(field: str, ms: int) -> None:
    if not 0 <= ms < _LATEST:
        raise BadNumber(f"{field} is {ms}; give milliseconds, 0 or more", field=field)


def check_path(path: str, field: str) -> None:
    """A node asks, from a folder of its own: a relative path would mean another place on each."""
    if not path.startswith("/") or "\0" in path:
        raise BadInput(f"{path!r:.80} is no absolute path: a node asks, from a folder of its own", field=field)


def check_command(probe: CommandExits) -> None:
    if not probe.argv or any("\0" in text for text in probe.argv):
        raise BadInput("a command names a program, and holds no NUL", field="argv")
    if probe.cwd is not None:
        check_path(probe.cwd, "cwd")
    _check_time("timeout", probe.timeout)


def check_place(host: str, port: int) -> None:
    if not host or not host.isprintable() or len(host) > _LONGEST_HOST or not 0 < port < 1 << 16:
        raise BadInput(f"{host!r:.80} with port {port} is no place to connect to", field="host")


def _check_url(probe: UrlAnswers) -> None:
    text = probe.url
    try:
        url = urlsplit(text)
        port = url.port or _PORTS[url.scheme]
    except (ValueError, KeyError):
        raise BadInput(f"{text!r:.80} is no http or https URL", field="url") from None
    if not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput(f"{text!r:.80} holds characters that must be written as %XX in a URL", field="url")
    check_place(url.hostname or "", port)
    if probe.status is not None and not 100 <= probe.status <= 599:
        raise BadNumber(f"status is {probe.status}; give one of HTTP, from 100 to 599", field="status")
