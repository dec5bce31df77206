"""Names and texts from strangers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import BadName
from ganger.core.names import LONGEST, check, check_text

GOOD = ["a", "mail", "emails/high", "größe", "очередь", "キュー", "a b", "x" * LONGEST, "naïve-ñ", "<b>", "..", "🙂"]
BAD = {
    "nothing": "",
    "newline inside": "a\nb",
    "newline at its end": "a\n",
    "carriage return": "a\rb",
    "tab": "a\tb",
    "nul": "a\0b",
    "escape": "\x1b[31m",
    "delete": "a\x7f",
    "c1 control": "a\x85b",
    "space before": " a",
    "space behind": "a ",
    "spaces alone": "   ",
    "no-break space": "a\u00a0b",
    "line separator": "a\u2028b",
    "right-to-left override": "a\u202etxt.exe",
    "right-to-left mark": "a\u200fb",
    "zero width space": "a\u200bb",
    "byte order mark": "\ufeffa",
    "high surrogate": "a\ud800",
    "low surrogate": "\udfffa",
    "private use": "a\ue000",
    "not a character": "a\uffff",
    "201 characters": "x" * (LONGEST + 1),
    "10,000 characters": "x" * 10_000,
}


@pytest.mark.parametrize("name", GOOD)
def test_a_name_that_people_can_read_is_given_back(name: str) -> None:
    assert check("queue", name) == name


@pytest.mark.parametrize("name", BAD.values(), ids=BAD.keys())
def test_a_name_that_people_cannot_read_is_refused(name: str) -> None:
    with pytest.raises(BadName) as refused:
        check("queue", name)

    said = str(refused.value)
    assert refused.value.fields["what"] == "queue"
    assert said.startswith("the queue name")
    assert said.isprintable()
    assert len(said) < 300
    said.encode()


@given(st.text(max_size=300))
def test_what_is_accepted_is_one_line_that_every_store_can_keep(name: str) -> None:
    try:
        check("node", name)
    except BadName:
        return
    assert 0 < len(name) <= LONGEST
    assert name.splitlines() == [name]
    assert name.encode().decode() == name
    assert "\0" not in name


@pytest.mark.parametrize("text", ["", "one line", "two\nlines\r\n\tand a tab", "x" * 50, "ünïcödé 🙂"])
def test_a_text_may_have_lines(text: str) -> None:
    assert check_text("description", text, 50) == text


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\udfff", "x" * 51, "\0", "é\0"])
def test_a_text_that_no_store_can_keep_is_refused(text: str) -> None:
    with pytest.raises(BadName) as refused:
        check_text("description", text, 50)

    str(refused.value).encode()


@given(st.text(st.characters(codec=None), max_size=60))
def test_an_accepted_text_survives_its_journey(text: str) -> None:
    try:
        check_text("reason", text, 50)
    except BadName:
        return
    assert text.encode().decode() == text
    assert "\0" not in text
