"""What the address of a PostgreSQL store says."""

import pytest

from ganger.core.errors import BadInput
from ganger.databases.postgres import read_address


def test_the_schema_is_taken_out_of_the_address() -> None:
    address = read_address("postgresql://u:p@h:1/d?sslmode=require&schema=mine")
    assert (address.url, address.schema) == ("postgresql://u:p@h:1/d?sslmode=require", "mine")


def test_without_a_schema_it_is_gangers() -> None:
    assert read_address("postgres://h/d").schema == "ganger"


@pytest.mark.parametrize("schema", ["", "Mine", "a b", "a;drop", "x" * 42, "1a", "ü"])
def test_a_schema_is_a_plain_name(schema: str) -> None:
    with pytest.raises(BadInput, match="schema"):
        read_address(f"postgresql://h/d?schema={schema}&x=1")


def test_another_scheme_is_refused() -> None:
    with pytest.raises(BadInput):
        read_address("mysql://h/d")


def test_schemas_and_purposes_have_locks_of_their_own() -> None:
    one, other = read_address("postgresql://h/d?schema=a"), read_address("postgresql://h/d?schema=b")
    assert len({one.lock("x"), one.lock("y"), other.lock("x")}) == 3
    assert one.channel != other.channel
