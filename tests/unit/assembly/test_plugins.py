"""Plugins as the settings name them."""

import pytest

from ganger.assembly.disbatch import name_database
from ganger.assembly.plugins import read_plugins
from ganger.core.errors import BadInput, BadName


def test_each_plugin_has_a_name_and_what_it_is() -> None:
    assert read_plugins("") == {}
    assert read_plugins("My::Plugin = package.module:Class, /opt/other,") == {
        "My::Plugin": "package.module:Class",
        "/opt/other": "/opt/other",
    }


def test_a_plugin_that_is_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="My::Plugin=module:Class"):
        read_plugins("My::Plugin=")
    with pytest.raises(BadName):
        read_plugins("=module:Class")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:/srv/tasks.db", "tasks.db"),
        ("memory:", "memory"),
        ("postgresql://me:secret@host/work?schema=x", "work"),
        ("mongodb://me:secret@host:27017/disbatch", "disbatch"),
        ("mongodb://host", "mongodb"),
    ],
)
def test_clients_are_told_the_name_of_the_store_alone(url: str, name: str) -> None:
    assert name_database(url) == name
