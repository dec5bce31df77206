"""The plugin that is shipped as an example."""

import pytest

from ganger.node.demo import Demo
from ganger.node.plugins import PluginTask


@pytest.mark.parametrize(
    ("commands", "status", "out", "err"),
    [("a", 1, "apple", ""), ("b", 1, "", "banana"), ("c", 2, "", "cry"), ("*", 2, "apple", "banana"), ("", 1, "", "")],
)
def test_the_demo_does_what_its_letters_say(commands: str, status: int, out: str, err: str) -> None:
    said = Demo(PluginTask(1, 2, 1, 3, {"commands": commands})).run()

    assert said[0] == status
    assert out in said[1]
    assert err in said[2]
    assert bool(said[1]) == bool(out)
    assert bool(said[2]) == bool(err)


def test_the_demo_needs_no_commands() -> None:
    assert Demo(PluginTask(1, 2, 1, 3, None)).run() == (1, "", "")
