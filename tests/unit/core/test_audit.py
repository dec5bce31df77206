"""The chain of the audit log breaks wherever somebody touched it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.audit import START, Act, AuditLine, chain, verify
from ganger.core.clock import Wall
from ganger.core.errors import AuditBroken
from ganger.core.ids import Position

texts = st.text(max_size=20)
acts = st.lists(st.builds(Act, texts, texts, texts), min_size=2, max_size=8)


def keep(done: list[Act]) -> list[AuditLine]:
    lines: list[AuditLine] = []
    before = START
    for position, act in enumerate(done, 1):
        before = chain(before, position, position * 10, act)
        lines.append(AuditLine(Position(position), Wall(position * 10), *act, before))
    return lines


def broken_at(lines: list[AuditLine]) -> object:
    with pytest.raises(AuditBroken) as broken:
        verify(lines)
    return broken.value.fields["position"]


@given(acts)
def test_an_untouched_log_is_whole(done: list[Act]) -> None:
    lines = keep(done)

    assert verify(lines) == (len(lines), lines[-1].hash)


def test_an_empty_log_is_whole() -> None:
    assert verify([]) == (0, START)


@given(acts, st.data())
def test_a_log_can_be_verified_page_by_page(done: list[Act], data: st.DataObject) -> None:
    lines = keep(done)
    at = data.draw(st.integers(0, len(lines)))
    count, before = verify(lines[:at])

    assert verify(lines[at:], before, count) == (len(lines) - at, lines[-1].hash)


@pytest.mark.parametrize(
    "change",
    [
        {"who": "eve"},
        {"action": "nothing"},
        {"detail": "{}"},
        {"at": Wall(11)},
        {"position": Position(7)},
        {"hash": b"\1" * 32},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_line_is_found(change: dict[str, object]) -> None:
    lines = keep([Act("ada", "pause", '{"queue":1}'), Act("bob", "kill", '{"task":2}'), Act("cem", "kick", "")])
    lines[1] = lines[1]._replace(**change)  # type: ignore[arg-type]

    assert broken_at(lines) == 2


@given(acts, st.data())
def test_a_removed_line_is_found(done: list[Act], data: st.DataObject) -> None:
    lines = keep(done)
    at = data.draw(st.integers(0, len(lines) - 2))
    del lines[at]

    assert broken_at(lines) == at + 1


@given(acts, st.data())
def test_an_inserted_line_is_found(done: list[Act], data: st.DataObject) -> None:
    lines = keep(done)
    at = data.draw(st.integers(0, len(lines) - 1))
    forged = Act("eve", "grant")
    before = lines[at - 1].hash if at else START
    lines.insert(at, AuditLine(Position(at + 1), Wall(5), *forged, chain(before, at + 1, 5, forged)))

    assert broken_at(lines) == at + 2


@given(acts, st.data())
def test_two_lines_that_changed_places_are_found(done: list[Act], data: st.DataObject) -> None:
    lines = keep(done)
    at = data.draw(st.integers(0, len(lines) - 2))
    lines[at], lines[at + 1] = lines[at + 1], lines[at]

    assert broken_at(lines) == at + 1


@given(acts, st.data())
def test_a_line_that_was_forged_with_its_hash_is_found_at_the_next(done: list[Act], data: st.DataObject) -> None:
    lines = keep(done)
    at = data.draw(st.integers(0, len(lines) - 2))
    forged = Act(lines[at].who + "!", "grant")
    before = lines[at - 1].hash if at else START
    lines[at] = AuditLine(Position(at + 1), Wall(5), *forged, chain(before, at + 1, 5, forged))

    assert broken_at(lines) == at + 2


@given(acts, st.data())
def test_the_last_hash_vouches_for_every_line(done: list[Act], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(done) - 1))
    other = [*done[:at], Act(done[at].who + "!", "grant"), *done[at + 1 :]]

    assert keep(done)[-1].hash != keep(other)[-1].hash


@given(st.lists(st.tuples(texts, texts, texts), min_size=2, max_size=2, unique=True))
def test_no_two_acts_have_one_hash(pair: list[tuple[str, str, str]]) -> None:
    one, other = (chain(START, 1, 10, Act(*act)) for act in pair)

    assert one != other


def test_a_text_cannot_pose_as_two_fields() -> None:
    assert chain(START, 1, 10, Act('a","b', "c")) != chain(START, 1, 10, Act("a", 'b","c'))
