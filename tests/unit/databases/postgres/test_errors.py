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
