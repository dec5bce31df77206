"""What a name may be: the same everywhere, so that none is endless, hides a character, or breaks a line of a log."""

from ganger.core.errors import BadName

LONGEST = 200


def check(what: str, name: str) -> str:
    """The name, if it is one: 1 to 200 characters, printable, no space at its ends."""
    size = len(name)
    if not 0 < size <= LONGEST:
        raise BadName(f"the {what} name has {size} characters; use 1 to {LONGEST}", what=what, size=size)
    if not name.isprintable():
        raise BadName(f"the {what} name {name!r:.80} holds a newline or another unprintable character", what=what)
    if name != name.strip():
        raise BadName(f"the {what} name {name!r} begins or ends with a space", what=what)
    return name


def check_text(what: str, text: str, longest: int) -> str:
    """A free text that people read: any printable character and line breaks, but no NUL and no half of a pair."""
    if len(text) > longest:
        raise BadName(f"the {what} has {len(text)} characters; use at most {longest}", what=what, size=len(text))
    if "\0" in text or (not text.isascii() and _broken(text)):
        raise BadName(f"the {what} holds a NUL or a lone surrogate, which no store can keep", what=what)
    return text


def _broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)
