"""The house rules over the whole package."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import source_checks, status_checks, text_checks
from tests.architecture.tree import PACKAGE, ROOT, TESTS, Offence, kept_files, modules, name_of, tell

FILE_LIMIT = 400
FUNCTION_LIMIT = 40
STORES = "src/ganger/engine/stores/"
IDLERS = frozenset({"tests/unit/databases/actor.py"})
"""Files that let time pass because they measure what a process does while nothing happens."""


def test_only_the_table_moves_a_status() -> None:
    offences = [
        offence
        for file, tree in modules()
        if file != "src/ganger/core/state.py"
        for offence in status_checks.find_status_writes(file, tree, applies_moves=file.startswith(STORES))
    ]

    assert not offences, tell(offences)


def test_no_statement_decides_a_status() -> None:
    offences = [
        offence
        for path in PACKAGE.rglob("queries/*.sql")
        for offence in status_checks.find_status_in_sql(name_of(path), path.read_text())
    ]

    assert not offences, tell(offences)


def test_statements_that_write_rows_of_the_engine_are_in_files() -> None:
    offences = [
        offence
        for file, tree in modules(PACKAGE / "engine")
        for offence in status_checks.find_sql_in_python(file, tree)
    ]

    assert not offences, tell(offences)


def test_each_query_file_holds_one_statement() -> None:
    crowded = [name_of(path) for path in PACKAGE.rglob("queries/*.sql") if _statements(path.read_text()) != 1]

    assert not crowded


def test_each_query_file_is_used() -> None:
    unused = [name_of(path) for path in PACKAGE.rglob("queries/*.sql") if not _is_used(path)]

    assert not unused


def _is_used(query: Path) -> bool:
    """Somewhere in the package around it the query is named: as `Q.name`, as `"name"` or as `f"na{rest}"`."""
    begun = "|".join(rf'f"{query.stem[:cut]}\{{' for cut in range(4, len(query.stem)))
    named = re.compile(rf"""\bQ\.{query.stem}\b|["']{query.stem}["']|{begun or query.stem}""")
    return any(named.search(path.read_text()) for path in query.parents[1].rglob("*.py"))


def _statements(sql: str) -> int:
    return text_checks.count_statements(sql)


def test_files_are_short() -> None:
    long = {name_of(path): lines for path in PACKAGE.rglob("*.py") if (lines := _lines(path.read_text())) > FILE_LIMIT}

    assert not long


def _lines(text: str) -> int:
    return len(text.splitlines())


def test_functions_are_short() -> None:
    offences = [
        offence for file, tree in modules() for offence in source_checks.find_long_functions(file, tree, FUNCTION_LIMIT)
    ]

    assert not offences, tell(offences)


def test_most_functions_are_small() -> None:
    lengths = sorted(length for _, tree in modules() for length in source_checks.function_lengths(tree))

    assert lengths[len(lengths) * 9 // 10] <= 30


@pytest.mark.parametrize(
    "find",
    [source_checks.find_missing_docstring, source_checks.find_module_state, source_checks.find_unseeded_generators],
    ids=lambda find: find.__name__,
)
def test_no_module_breaks_the_rule(find: Callable[[str, ast.Module], list[Offence]]) -> None:
    offences = [offence for file, tree in modules() for offence in find(file, tree)]

    assert not offences, tell(offences)


def test_every_module_has_a_name_that_says_something() -> None:
    offences = [
        offence for file, _ in modules() for offence in source_checks.find_forbidden_names(file.removeprefix("src/"))
    ]

    assert not offences, tell(offences)


def test_core_uses_the_standard_library_alone() -> None:
    offences = [
        offence
        for file, tree in modules(PACKAGE / "core")
        for offence in source_checks.find_foreign_imports(file, tree, own="ganger.core")
    ]

    assert not offences, tell(offences)


def test_no_test_sleeps() -> None:
    offences = [
        offence
        for file, tree in modules(TESTS)
        if file not in IDLERS
        for offence in source_checks.find_sleeps(file, tree)
    ]

    assert not offences, tell(offences)


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    offences = [
        offence
        for path in kept_files()
        if (text := _text_of(path.read_bytes())) is not None
        for offence in text_checks.find_machine_paths(str(path.relative_to(ROOT)), text)
    ]

    assert not offences, tell(offences)


def _text_of(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
