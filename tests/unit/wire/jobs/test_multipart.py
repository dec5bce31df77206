"""Forms, however they are cut on their way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadInput
from ganger.wire.jobs.multipart import Begin, Content, End, Multipart, is_form, read_boundary

LINE = b"--edge"
NASTY = [b"", b"\r", b"\r\n", b"\r\n-", b"\r\n--", b"\r\n--edg", b"--edge", b"\r\n--edgX", b"\r\n\r\n", b"-", b"x"]


def draw(parts: list[tuple[bytes, bytes]]) -> bytes:
    form = b""
    for name, content in parts:
        form += (
            LINE + b'\r\nContent-Disposition: form-data; name="' + name + b'"; filename="f"\r\n\r\n' + content + b"\r\n"
        )
    return form + LINE + b"--\r\n"


def read(form: bytes, size: int) -> list[tuple[str, bytes]]:
    parser, found, content = Multipart(b"edge"), [], b""
    name = ""
    for start in range(0, len(form), size):
        for event in parser.feed(form[start : start + size]):
            if isinstance(event, Begin):
                name, content = event.name, b""
            elif isinstance(event, Content):
                content += event.data
            else:
                assert isinstance(event, End)
                found.append((name, content))
    assert parser.ended
    return found


@given(
    st.lists(st.lists(st.sampled_from(NASTY), max_size=5).map(b"".join), min_size=1, max_size=4),
    st.integers(1, 60),
)
def test_a_form_is_the_same_however_it_was_cut(contents: list[bytes], size: int) -> None:
    safe = [content for content in contents if b"\r\n--edge" not in b"\r\n" + content]
    parts = [(f"part{number}".encode(), content) for number, content in enumerate(safe)]
    assert read(draw(parts), size) == [(name.decode(), content) for name, content in parts]


@given(st.binary(max_size=2_000), st.integers(1, 50))
def test_what_is_no_form_is_refused_or_has_no_end(data: bytes, size: int) -> None:
    parser = Multipart(b"edge")
    for start in range(0, len(data), size):
        parser.feed(data[start : start + size])
    assert len(parser._buffer) <= len(b"\r\n--edge")


def test_what_stands_before_and_behind_the_form_is_not_read() -> None:
    assert read(b"preamble\r\n" + draw([(b"a", b"1")]) + b"epilogue", 7) == [("a", b"1")]


def test_a_part_says_its_name_and_perhaps_a_file() -> None:
    parser = Multipart(b"e")
    head = b"--e\r\ncontent-TYPE: text/plain\r\ncontent-disposition: form-data; name=bare\r\n\r\n"
    assert parser.feed(head) == [Begin("bare", None)]


@pytest.mark.parametrize(
    "head",
    [
        b"--e\r\n\r\n\r\n",
        b"--e\r\nContent-Disposition: form-data\r\n\r\n",
        b"--e\r\nContent-Disposition: attachment; name=x\r\n\r\n",
        b'--e\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n',
        b"--e\r\n" + b"x" * 9_000,
    ],
)
def test_a_part_without_a_name_is_refused(head: bytes) -> None:
    with pytest.raises(BadInput):
        Multipart(b"e").feed(head)


@pytest.mark.parametrize(
    ("header", "boundary"),
    [
        (b"multipart/form-data; boundary=abc", b"abc"),
        (b'Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
        (b"multipart/form-data;boundary=abc; more=1", b"abc"),
    ],
)
def test_the_header_names_the_boundary(header: bytes, boundary: bytes) -> None:
    assert is_form(header)
    assert read_boundary(header) == boundary


@pytest.mark.parametrize(
    "header", [b"multipart/form-data", b"multipart/mixed; boundary=x", b"multipart/form-data; boundary=" + b"x" * 71]
)
def test_a_header_without_a_boundary_is_refused(header: bytes) -> None:
    with pytest.raises(BadInput):
        read_boundary(header)
