"""What strangers gave their tasks, as a value that goes from store to store."""

import pytest

from ganger.core.task import THEIRS
from ganger.engine.store import Datum
from ganger.engine.stores.mongo.foreign import read_theirs


def test_an_object_is_what_it_says() -> None:
    said = Datum(THEIRS, b'{"owner":"ada","mark":{"$oid":"571fac85ee63413233049fbd"},"n":{"a":[1,2.5,null]}}')

    found = read_theirs(said)
    assert found is not None
    assert (found["owner"], found["n"]) == ("ada", {"a": [1, 2.5, None]})
    assert str(found["mark"]) == "571fac85ee63413233049fbd"


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON", b"\xff", b"[]", b"1", b'{"status": 1}', b'{"_id": 1}', b'{"ganger": {}}', b'{"cmdExit": 1}',
        b'{"a.b": 1}', b'{"$set": 1}', b'{"": 1}', b'{"n": {"$oid": "x"}}', b'{"n": 99999999999999999999}',
    ],
)  # fmt: skip
def test_what_is_not_theirs_to_say_stays_a_value_like_any_other(body: bytes) -> None:
    assert read_theirs(Datum(THEIRS, body)) is None


def test_so_does_every_other_value() -> None:
    assert read_theirs(Datum("owner", b'{"owner":"ada"}')) is None
    assert read_theirs(Datum(THEIRS, None, "a blob")) is None
