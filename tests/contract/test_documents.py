"""Every place for versioned documents keeps the contract."""

import asyncio
from pathlib import Path

import pytest

from ganger.testing.contracts import documents
from ganger.testing.contracts.documents import CHECKS, Check
from tests.servers.documents import find_address, mark_servers, run_stand


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("place", mark_servers())
def test_documents_keep_the_contract(place: str, check: Check, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run_stand(find_address(place, request, tmp_path), check)


def test_no_check_of_the_suite_is_left_out() -> None:
    written = {name for name, value in vars(documents).items() if asyncio.iscoroutinefunction(value) and name[0] != "_"}

    assert written == {getattr(check, "__name__", "") for check in CHECKS}
