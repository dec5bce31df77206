"""Takes secrets out of bytes that come in pieces, wherever the borders of the pieces fall.

What can go wrong, and why this is right:

- *A secret is cut in two by the border of a piece.* What may be the beginning of one is held back until it is known,
  and nothing else is: a line that holds no such beginning goes at once. Never is as much held back as the longest
  secret has bytes.
- *Secrets overlap in what is written.* Whoever masks one match after another would show the rest of the second. All
  matches are found, and what any of them covers is masked; a cover that reaches into what is held back is remembered.
- *A program that repeats itself* cannot make the held part grow: it is bounded by the secrets and not by the matches.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

MASK: Final = b"***"
Span = tuple[int, int]


class Masker:
    """One stream. Feed it piece by piece, and finish it."""

    __slots__ = ("_covered", "_held", "_longest", "_secrets")

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._longest = max(map(len, self._secrets), default=0)
        self._held = b""
        self._covered = 0

    def feed(self, piece: bytes) -> bytes:
        """What can be shown now."""
        data = self._held + piece
        return self._show(data, self._find_doubt(data))

    def finish(self) -> bytes:
        """The rest: nothing comes any more, so what is held back is no secret."""
        return self._show(self._held, len(self._held))

    def _show(self, data: bytes, end: int) -> bytes:
        spans = _join([(0, self._covered), *self._find_all(data)])
        shown = b"".join(_cover(data[:end], spans, begun=self._covered > 0))
        self._held = data[end:]
        begun = [stop - end for start, stop in spans if start < end or (start == 0 and self._covered)]
        self._covered = max([0, *begun])
        return shown

    def _find_all(self, data: bytes) -> Iterator[Span]:
        for secret in self._secrets:
            at = data.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = data.find(secret, at + 1)

    def _find_doubt(self, data: bytes) -> int:
        """Where the first beginning of a secret lies whose rest may be yet to come."""
        return min((self._find_beginning(data, secret) for secret in self._secrets), default=len(data))

    def _find_beginning(self, data: bytes, secret: bytes) -> int:
        at = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
        while at >= 0:
            if secret.startswith(data[at:]):
                return at
            at = data.find(secret[:1], at + 1)
        return len(data)


def _join(spans: Iterable[Span]) -> list[Span]:
    """Spans in their order; those that touch what others cover are one."""
    joined: list[Span] = []
    for start, stop in sorted(span for span in spans if span[0] < span[1]):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return joined


def _cover(data: bytes, spans: Sequence[Span], *, begun: bool) -> Iterator[bytes]:
    """The data with a mask for each span; if the first has begun in a piece before, its mask has been shown."""
    at = 0
    for start, stop in spans:
        if start >= len(data):
            break
        yield data[at:start]
        if not (begun and start == 0):
            yield MASK
        at = stop
    yield data[at:]


def mask(data: bytes, secrets: Sequence[bytes]) -> bytes:
    """Data that are whole, without the secrets."""
    masker = Masker(secrets)
    return masker.feed(data) + masker.finish()


def mask_text(text: str, secrets: Sequence[bytes]) -> str:
    return mask(text.encode("utf-8", "backslashreplace"), secrets).decode(errors="replace") if secrets else text


def mask_all(value: Any, secrets: Sequence[bytes]) -> Any:
    """A value that came as JSON, without the secrets in its texts; numbers are left alone."""
    match value:
        case str():
            return mask_text(value, secrets)
        case list():
            return [mask_all(one, secrets) for one in value]
        case dict():
            return {mask_text(key, secrets): mask_all(one, secrets) for key, one in value.items()}
        case _:
            return value


def mask_pieces(pieces: Iterable[bytes], secrets: Sequence[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces, without the secrets."""
    if not secrets:
        yield from pieces
        return
    masker = Masker(secrets)
    yield from filter(None, map(masker.feed, pieces))
    yield masker.finish()
