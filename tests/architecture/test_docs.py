"""Documents are complete, their links lead somewhere, and their code runs."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import ganger
from ganger.assembly.settings import PREFIX, Settings
from ganger.cli.main import main
from ganger.core.errors import tree as error_tree
from ganger.core.event import Event, Fact
from ganger.core.state import RULES, Status
from ganger.engine.store import Store
from scripts import draw_engine, draw_states
from tests.architecture import text_checks
from tests.architecture.tree import DOCS, PACKAGE, ROOT, name_of, tell

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
RECORDS = sorted(DOCS.glob("decisions/[0-9]*.md"))
PROGRAMS = [page for page in PAGES if text_checks.python_of(page)]
OPERATIONS = 15
LOCAL = frozenset(
    {"adopt", "close", "keep", "name_holder", "offer", "peek", "peek_named", "pour", "share", "strangers"}
)
"""Operations that ask the store nothing."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    offences = text_checks.find_broken_links(page)

    assert not offences, tell(offences)


def test_every_page_can_be_reached_from_the_index() -> None:
    reached = _reachable(DOCS / "README.md", frozenset())

    assert not [name_of(page) for page in DOCS.rglob("*.md") if page.resolve() not in reached]


def _reachable(page: Path, seen: frozenset[Path]) -> frozenset[Path]:
    seen |= {page.resolve()}
    for name in re.findall(r"\]\(([^)#\s:]+\.md)", page.read_text()):
        target = (page.parent / name).resolve()
        if target.is_relative_to(DOCS) and target not in seen:
            seen = _reachable(target, seen)
    return seen


def test_every_event_is_documented() -> None:
    offences = text_checks.find_undocumented(DOCS / "reference" / "events.md", {*Fact, *Event._fields})

    assert not offences, tell(offences)


def test_every_status_and_rule_is_documented() -> None:
    names = {*RULES, *(status.name.lower() for status in Status)}
    offences = text_checks.find_undocumented(DOCS / "reference" / "state.md", names)

    assert not offences, tell(offences)


def test_the_drawing_of_the_states_is_fresh() -> None:
    assert draw_states.PAGE.read_text() == draw_states.draw(), "core/state.py has changed: run `make docs`"


def test_the_reference_of_the_engine_is_fresh() -> None:
    assert draw_engine.PAGE.read_text() == draw_engine.draw(), "the engine has changed: run `make docs`"


def test_every_operation_of_the_engine_says_what_it_does_and_what_it_uses() -> None:
    operations = [
        method for part in draw_engine.parts() for method in draw_engine.operations(part) if method.name not in LOCAL
    ]

    assert not [method.name for method in operations if "Uses: " not in (ast.get_docstring(method) or "")]


def test_every_reason_why_a_task_does_not_run_is_documented() -> None:
    codes = {
        argument.value
        for file in ("explain.py", "obstacles.py")
        for node in ast.walk(ast.parse((PACKAGE / "engine" / file).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Reason"
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    offences = text_checks.find_undocumented(draw_engine.PAGE, codes)

    assert codes
    assert not offences, tell(offences)


def test_every_setting_is_documented() -> None:
    names = {name for field in Settings.__struct_fields__ for name in (field, f"{PREFIX}{field.upper()}")}
    offences = text_checks.find_undocumented(DOCS / "reference" / "settings.md", names)

    assert not offences, tell(offences)


def test_every_command_is_documented() -> None:
    offences = text_checks.find_undocumented(DOCS / "reference" / "cli.md", set(_commands("ganger", main)))

    assert not offences, tell(offences)


def _commands(name: str, command: click.Command) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    for word, below in command.commands.items():
        yield from _commands(f"{name} {word}", below)


def test_every_error_is_documented() -> None:
    names = {name for error in error_tree() for name in (error.code, error.__name__)}
    offences = text_checks.find_undocumented(DOCS / "reference" / "errors.md", names)

    assert not offences, tell(offences)


def test_no_error_is_documented_that_does_not_exist() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "errors.md").read_text(), re.MULTILINE))

    assert documented == {error.code for error in error_tree()}


def test_the_store_contract_is_small_and_tells_its_terms() -> None:
    operations = {name: member for name, member in vars(Store).items() if inspect.isfunction(member) and name[0] != "_"}

    assert len(operations) <= OPERATIONS
    assert not [name for name, operation in operations.items() if not operation.__doc__]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_record_has_its_sections_and_is_in_the_index(record: Path) -> None:
    offences = text_checks.find_missing_sections(record, ("Status", "Context", "Decision", "Consequences"))

    assert not offences, tell(offences)
    assert f"({record.name})" in (DOCS / "decisions" / "README.md").read_text()


def test_decision_records_are_numbered_without_a_gap() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(text_checks.python_of(page))

    ran = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", ["limits", "retry", "graphs", "events"])
def test_a_page_that_shows_a_program_shows_one_that_runs_and_needs_the_users_api_alone(
    name: str, tmp_path: Path
) -> None:
    files = text_checks.files_of(DOCS / "how-to" / f"{name}.md")

    for file, code in files.items():
        (tmp_path / file).write_text(code)
        ran = subprocess.run(
            [sys.executable, "-W", "error", file],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert "ganger.engine" not in code
        assert "open_engine" not in code

    assert len(files) == 1


def test_the_public_names_are_what_the_package_says() -> None:
    missing = [name for name in ganger.__all__ if not hasattr(ganger, name)]

    assert not missing
    assert sorted(ganger.__all__) == ganger.__all__
    assert set(dir(ganger)) >= set(ganger.__all__)
