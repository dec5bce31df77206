"""The tree of errors: stable codes, one each, that survive a journey between processes."""

import pickle
import re
from collections import Counter

import pytest

from ganger.core import errors
from ganger.core.errors import GangerError
from tests.architecture.tree import PACKAGE, modules

TREE = sorted(set(errors.tree()), key=lambda error: error.__name__)


def test_no_two_errors_have_one_code() -> None:
    codes = Counter(error.code for error in TREE)

    assert not [code for code, times in codes.items() if times > 1]


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_an_error_has_its_own_code_in_the_words_of_its_name(error: type[GangerError]) -> None:
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()

    assert "code" in vars(error)
    assert error.code == words


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_an_error_arrives_elsewhere_as_what_it_was(error: type[GangerError]) -> None:
    raised = error("it went wrong", task=7)

    for arrived in (errors.decode(*errors.encode(raised)), pickle.loads(pickle.dumps(raised))):
        assert type(arrived) is error
        assert (str(arrived), arrived.fields) == ("it went wrong", {"task": 7})


def test_every_error_is_drawn_in_the_tree() -> None:
    assert not [error.__name__ for error in TREE if not re.search(rf"\b{error.__name__}\b", errors.__doc__ or "")]


def test_errors_are_defined_in_one_file_alone() -> None:
    known = {error.__name__ for error in TREE}
    strays = [
        file
        for file, tree in modules()
        for node in tree.body
        if file != str((PACKAGE / "core" / "errors.py").relative_to(PACKAGE.parents[1]))
        if getattr(node, "name", None) in known
    ]

    assert not strays
