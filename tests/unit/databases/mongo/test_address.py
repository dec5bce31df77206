"""Where a MongoDB store is."""

import pytest

from ganger.core.errors import BadInput
from ganger.databases.mongo import read_address


@pytest.mark.parametrize("url", ["mongodb://h/d", "mongodb://u:p@h:1,i:2/d?replicaSet=r", "mongodb+srv://h/d"])
def test_the_path_names_the_database(url: str) -> None:
    assert read_address(url) == (url, "d")


@pytest.mark.parametrize("url", ["mongodb://h", "mongodb://h/", "mongodb://h/a/b", "mongodb://h/a%00", "http://h/d"])
def test_an_address_without_a_plain_database_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        read_address(url)
