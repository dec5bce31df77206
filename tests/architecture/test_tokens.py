"""No secret of the package is compared with `==`."""

import ast
from pathlib import Path

import pytest

import ganger
from tests.architecture.token_checks import find_token_comparisons
from tests.architecture.tree import tell

PACKAGE = Path(ganger.__file__).parent


def test_tokens_are_compared_in_constant_time() -> None:
    places = {path: path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))}
    offences = [
        offence
        for path, place in places.items()
        for offence in find_token_comparisons(str(place), ast.parse(path.read_text()))
    ]

    assert not offences, tell(offences)


@pytest.mark.parametrize(
    "code",
    ["token == said", "row.token != change.token", "str(token) == given", "token in known", "wanted == self.api_token"],
)
def test_a_token_compared_by_hand_is_found(code: str) -> None:
    assert find_token_comparisons("a.py", ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "hmac.compare_digest(token, said)",
        "token is None",
        "len(token) == 16",
        "0 < len(said.token) <= 256",
        "tokenizer == 1",
        "emac == 2",
    ],
)
def test_what_gives_nothing_away_is_left_alone(code: str) -> None:
    assert not find_token_comparisons("a.py", ast.parse(code))
