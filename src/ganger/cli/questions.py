"""A question as people write it, in a file or in options, becomes a condition; and the way back, for drawings."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, assert_never

import click
import msgspec

from ganger.cli.words import read_duration, say_length, say_second
from ganger.core.errors import BadInput
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

_STRICT: Final = {"url": ("status",), "command": ("timeout",), "shell": ("timeout",)}
"""What only some questions know."""

_PATIENT: Final = ("every", "deadline")
"""What only a wait knows."""


def read_question(words: Mapping[str, Any], *, wait: bool, folder: str) -> ConditionSpec:
    """The condition that the words ask for. Files are looked for, and commands run, from the folder on.

    BadInput and click.BadParameter say what is wrong.
    """
    subject = _choose_subject(words)
    refuse_unknown(words, (subject, *_STRICT.get(subject, ()), *(_PATIENT if wait else ())), _name(subject, wait))
    every, deadline = (_read_time(words[key]) if key in words else None for key in _PATIENT)
    try:
        spec = ConditionSpec(_MAKERS[subject](words, folder), wait, deadline=deadline)
        return spec if every is None else msgspec.structs.replace(spec, every=every)
    except msgspec.ValidationError as error:
        raise BadInput(f"{subject}: {error}") from None


def _choose_subject(words: Mapping[str, Any]) -> str:
    subjects = [word for word in words if word in _MAKERS]
    if len(subjects) != 1:
        found = " and ".join(subjects) or ", ".join(map(str, words)) or "nothing"
        raise BadInput(f"a question asks about one of {', '.join(_MAKERS)}, and this one about {found}")
    return subjects[0]


def _name(subject: str, wait: bool) -> str:
    return f"{'until' if wait else 'if'} with {subject}"


def refuse_unknown(words: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """BadInput if there is a word that is not known; it says which are."""
    if strange := [str(word) for word in words if word not in known]:
        raise BadInput(f"{what} knows no `{strange[0]:.80}`; known are {', '.join(known)}")


def _read_time(value: Any) -> int:
    is_written = isinstance(value, int | float | str) and not isinstance(value, bool)
    return read_duration(str(value) if is_written else repr(value))


def _text(words: Mapping[str, Any], key: str) -> str:
    return msgspec.convert(words[key], str)


def _file(words: Mapping[str, Any], folder: str) -> Probe:
    return FileThere(os.path.join(folder, _text(words, "file")))


def _gone(words: Mapping[str, Any], folder: str) -> Probe:
    return FileThere(os.path.join(folder, _text(words, "gone")), gone=True)


def _port(words: Mapping[str, Any], _: str) -> Probe:
    host, _, port = str(words["port"]).rpartition(":")
    if not port.isascii() or not port.isdecimal() or len(port) > 5:
        raise BadInput(f"{words['port']!r:.80} is not a place to connect to; write HOST:PORT, as in localhost:5432")
    return PortAnswers(host.strip("[]") or "localhost", int(port))


def _url(words: Mapping[str, Any], _: str) -> Probe:
    status = words.get("status")
    return UrlAnswers(_text(words, "url"), None if status is None else msgspec.convert(status, int, strict=False))


def _command(words: Mapping[str, Any], folder: str) -> Probe:
    return _exits(msgspec.convert(words["command"], list[str]), words, folder)


def _shell(words: Mapping[str, Any], folder: str) -> Probe:
    return _exits(["bash", "-c", _text(words, "shell")], words, folder)


def _exits(argv: list[str], words: Mapping[str, Any], folder: str) -> Probe:
    if "timeout" not in words:
        return CommandExits(argv, cwd=folder)
    return CommandExits(argv, _read_time(words["timeout"]), cwd=folder)


def _expression(words: Mapping[str, Any], _: str) -> Probe:
    return Expression(_text(words, "expression"))


def _at(words: Mapping[str, Any], _: str) -> Probe:
    try:
        at = words["at"] if isinstance(words["at"], datetime) else datetime.fromisoformat(str(words["at"]))
        return AtTime(round(at.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"{words['at']!r:.80} is not a time; write 2027-01-31T08:00, or with +01:00 or Z") from None


def _delay(words: Mapping[str, Any], _: str) -> Probe:
    return AfterDelay(_read_time(words["delay"]))


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Probe]]] = {
    "file": _file,
    "gone": _gone,
    "port": _port,
    "url": _url,
    "command": _command,
    "shell": _shell,
    "expression": _expression,
    "at": _at,
    "delay": _delay,
}
SUBJECTS: Final = tuple(_MAKERS)


def read_safely(words: Mapping[str, Any], *, wait: bool, folder: str) -> ConditionSpec:
    """As `read_question`, with every complaint a BadInput."""
    try:
        return read_question(words, wait=wait, folder=folder)
    except click.BadParameter as error:
        raise BadInput(error.message) from None


def say_question(spec: ConditionSpec) -> str:
    """The question in a few words: `until file /data/ready`."""
    return f"{'until' if spec.wait else 'if'} {_say(spec.probe)}"


def _say(probe: Probe) -> str:
    match probe:
        case FileThere(path=path, gone=gone):
            return f"{'gone' if gone else 'file'} {path}"
        case PortAnswers(host=host, port=port):
            return f"port {host}:{port}"
        case UrlAnswers(url=url):
            return f"url {url}"
        case CommandExits(argv=argv):
            return f"shell {argv[2]}" if argv[:2] == ["bash", "-c"] and len(argv) == 3 else f"command {' '.join(argv)}"
        case Expression(text=text):
            return text
        case AtTime(at=at):
            return f"at {say_second(at)}"
        case AfterDelay(ms=ms):
            return f"delay {say_length(ms)}"
        case _:
            assert_never(probe)
