"""`ganger export` from one store, `ganger import` into a MongoDB store: every task, result and graph is kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract import test_postgres_carrying as carrying

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_all_that_was_in_a_file_is_in_mongodb(
    tmp_path: Path, mongo_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying.test_all_that_was_in_a_file_is_in_the_database(tmp_path, mongo_url, monkeypatch)
