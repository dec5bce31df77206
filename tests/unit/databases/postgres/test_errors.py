"""What the driver raises becomes an error of the tree."""

import asyncpg
import pytest

from ganger.core.errors import BadInput, GangerError, StoreError, StoreFull, StoreUnavailable
from ganger.databases.postgres.errors import translate


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (asyncpg.DataError("value out of int64 range"), BadInput),
        (asyncpg.CharacterNotInRepertoireError("NUL"), BadInput),
        (asyncpg.DiskFullError("no space"), StoreFull),
        (ConnectionResetError("gone"), StoreUnavailable),
        (asyncpg.UndefinedTableError("no table"), StoreError),
    ],
)
def test_each_error_says_whose_fault_it_is(raised: Exception, kind: type[GangerError]) -> None:
    assert type(translate(raised, "testing")) is kind


def test_a_row_that_is_refused_is_not_shown() -> None:
    error = asyncpg.CheckViolationError("new row violates a check")
    error.detail = "Failing row contains (1, of somebody)."

    said = translate(error, "submitting").message

    assert "new row violates a check" in said
    assert "somebody" not in said
