"""What a value may be, asked once, at the edge of the engine: behind it everybody may trust it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ganger.core import names
from ganger.core.errors import BadInput, BadNumber, BadPolicy, PayloadTooLarge
from ganger.core.retry import LONGEST_DELAY, Retry, check, from_text
from ganger.core.showing import show
from ganger.core.task import LAST_PRIORITY, PLUGIN, Kind

KINDS: Final = frozenset(Kind)
LATEST: Final = 1 << 62
SPEC: Final = "spec"
OUTPUT: Final = "out:"
"""A key that begins so is an output stream."""


def check_whole(field: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadNumber(f"{field} is {show(value)}; give a whole number from {low} to {high}", field=field)


def check_priority(value: int) -> None:
    """0 is first; the last one is the largest number of 32 bits."""
    check_whole("priority", value, 0, LAST_PRIORITY)


def check_delay(field: str, value: int, low: int = 0) -> None:
    """Milliseconds from now; the longest is some 278 years."""
    check_whole(field, value, low, LONGEST_DELAY)


def check_kind(kind: str) -> None:
    if kind in KINDS:
        return
    if not isinstance(kind, str) or not kind.startswith(PLUGIN):
        known = ", ".join(sorted(KINDS))
        raise BadInput(f"kind {kind!r:.80} is unknown; use one of {known} or plugin:<name>", field="kind")
    names.check("plugin", kind[len(PLUGIN) :])


def check_data_key(key: str) -> None:
    names.check("data key", key)
    if key == SPEC or key.startswith(OUTPUT):
        raise BadInput(f"{key!r} is not written as data: a spec is edited, output is appended", field="key")


def check_size(what: str, body: bytes, limit: int) -> None:
    if not isinstance(body, bytes):
        raise BadInput(f"the {what} is {type(body).__name__}; give bytes", field=what)
    if len(body) > limit:
        raise PayloadTooLarge(
            f"the {what} has {len(body)} bytes and the limit is {limit}: put it into a blob and name that instead",
            what=what,
            size=len(body),
            limit=limit,
        )


@lru_cache(maxsize=1024)
def check_retry(text: str) -> Retry:
    """The policy that the text says, if it says one."""
    try:
        return check(from_text(text))
    except (ValueError, TypeError):
        raise BadPolicy(f"{text!r:.80} is not a retry policy; write one with core.retry.to_text") from None


def check_labels(what: str, labels: Sequence[str], most: int) -> None:
    check_whole(f"the number of {what}s", len(labels), 0, most)
    for label in labels:
        names.check(what, label)


def tidy(text: str, longest: int) -> str:
    """A text that a program wrote, as a store can keep it: cut, and without what no store can keep.

    A reason is not worth a refusal: the failure that it explains must be recorded whatever it says.
    """
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
