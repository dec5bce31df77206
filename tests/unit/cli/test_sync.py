"""`ganger schedule sync`: an app's schedules from the command line."""

import sys
from pathlib import Path

import pytest

from tests.unit.cli.console import Console

SHOP = """
from ganger import Ganger

app = Ganger("memory:", name="shop")

@app.cron("@daily")
def report() -> None: ...
"""


@pytest.fixture(autouse=True)
def shop(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "corner_shop", raising=False)
    (console.folder / "corner_shop.py").write_text(SHOP)


def test_schedules_are_written_once_and_told(console: Console) -> None:
    words = ("schedule", "sync", "corner_shop:app", "--store", console.url, "--path", console.folder)

    assert console.out(*words) == "added corner_shop:report"
    assert console.out(*words) == ""
    (planned,) = console.lines("schedule", "ls", "--json")
    assert (planned["name"], planned["cron"]) == ("corner_shop:report", "@daily")
    assert console.out("schedule", "ls").endswith("corner_shop:report()")


def test_one_that_is_declared_no_more_is_told_on_the_side(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("schedule", "sync", "corner_shop:app", "--store", console.url, "--path", console.folder)
    console.run(*words)
    monkeypatch.delitem(sys.modules, "corner_shop")
    (console.folder / "corner_shop.py").write_text(SHOP.replace("def report", "def summary_of_the_day"))

    assert "corner_shop:report is declared no more" in console.err(*words)
    (said,) = console.lines(*words, "--remove", "--json")
    assert said == {
        "added": [], "changed": [], "same": ["corner_shop:summary_of_the_day"], "gone": [],
        "removed": ["corner_shop:report"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("corner_shop", "module:name"),
        ("no_such_shop:app", "cannot be imported"),
        ("corner_shop:nothing", "cannot be imported"),
        ("corner_shop:Ganger", "not an app"),
    ],
)
def test_what_is_no_app_is_refused(console: Console, app: str, words: str) -> None:
    said = console.err("schedule", "sync", app, "--path", Path(console.folder), exits=2)

    assert words in said
