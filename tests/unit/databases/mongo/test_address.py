"""Where a MongoDB store is."""

import pytest

from ganger.core.errors import BadInput
from ganger.databases.mongo import read_address, read_option


@pytest.mark.parametrize("url", ["mongodb://h/d", "mongodb://u:p@h:1,i:2/d?replicaSet=r", "mongodb+srv://h/d"])
def test_the_path_names_the_database(url: str) -> None:
    assert read_address(url) == (url, "d")


@pytest.mark.parametrize("url", ["mongodb://h", "mongodb://h/", "mongodb://h/a/b", "mongodb://h/a%00", "http://h/d"])
def test_an_address_without_a_plain_database_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        read_address(url)


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("mongodb://h/d?dialect=later", "mongodb://h/d"),
        ("mongodb://u:p@h:1,i:2/d?replicaSet=r&dialect=later&w=1", "mongodb://u:p@h:1,i:2/d?replicaSet=r&w=1"),
    ],
)
def test_what_the_url_says_to_the_store_the_driver_does_not_see(url: str, left: str) -> None:
    assert read_address(url) == (left, "d")
    assert (read_option(url, "dialect"), read_option(left, "dialect")) == ("later", None)
