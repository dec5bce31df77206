"""Each check is shown what it must find, and what it must leave alone."""

import ast
from pathlib import Path

import pytest

from tests.architecture import source_checks, status_checks, text_checks


@pytest.mark.parametrize(
    "code",
    [
        "task._replace(status=Status.QUEUED)",
        "replace(task, status=2)",
        "msgspec.structs.replace(task, status=move.target)",
        "task.status = Status.HELD",
        "a, task.status = 1, 2",
        "task.status: int = 1",
        "task.status += 1",
        "row['status'] = -2",
        "setattr(task, 'status', 1)",
        "object.__setattr__(task, 'status', 1)",
    ],
)
def test_a_status_moved_outside_the_table_is_found(code: str) -> None:
    assert status_checks.find_status_writes("engine/settle.py", ast.parse(code))


@pytest.mark.parametrize("code", ["row.status = move.target", "task._replace(status=move.target, fence=3)"])
def test_a_store_may_apply_the_target_of_a_move(code: str) -> None:
    assert not status_checks.find_status_writes("engine/stores/memory.py", ast.parse(code), applies_moves=True)


@pytest.mark.parametrize("code", ["row.status = Status.FAILED", "row.status = 2", "task._replace(status=code)"])
def test_a_store_may_not_decide_a_status(code: str) -> None:
    assert status_checks.find_status_writes("engine/stores/memory.py", ast.parse(code), applies_moves=True)


@pytest.mark.parametrize("code", ["status = task.status", "Task(status=Status.QUEUED)", "if task.status == 1: pass"])
def test_reading_a_status_and_making_a_task_are_no_moves(code: str) -> None:
    assert not status_checks.find_status_writes("engine/submit.py", ast.parse(code))


@pytest.mark.parametrize(
    "sql",
    ["UPDATE task SET status = -2 WHERE id = ?", "update task\nset fence = fence + 1,\n    status=1\nwhere id = ?"],
)
@pytest.mark.parametrize("file", ["settle.sql", "moves_fail.sql", "restart.sql"])
def test_sql_that_decides_a_status_is_found(file: str, sql: str) -> None:
    assert status_checks.find_status_in_sql(file, sql)


def test_sql_named_after_a_rule_may_spell_its_target() -> None:
    assert not status_checks.find_status_in_sql("queries/moves_start.sql", "UPDATE task SET status = 0 WHERE id = ?")
    assert not status_checks.find_status_in_sql("promote_queue.sql", "UPDATE task SET status = -2 WHERE id = ?")


@pytest.mark.parametrize(
    "sql",
    ["UPDATE task SET status = :target WHERE status = -1", "UPDATE task SET fence = 1 WHERE id = ? AND status = 0"],
)
def test_sql_that_writes_what_it_was_handed_is_left_alone(sql: str) -> None:
    assert not status_checks.find_status_in_sql("settle.sql", sql)


def test_sql_that_writes_rows_from_python_is_found() -> None:
    tree = ast.parse("run('UPDATE task SET status = ?'); run('SELECT 1'); run('insert into task values (1)')")

    assert len(status_checks.find_sql_in_python("store.py", tree)) == 2


def test_a_function_is_measured_without_its_docstring() -> None:
    body = "\n".join(f"    a = {n}" for n in range(40))
    docstring = '    """' + "words\n" * 30 + '    """\n'

    assert source_checks.find_long_functions("a.py", ast.parse(f"def long():\n{body}"), limit=40)
    assert not source_checks.find_long_functions("a.py", ast.parse(f"def fits():\n{docstring}    pass"), limit=40)


@pytest.mark.parametrize(
    "file", ["src/ganger/utils.py", "src/ganger/engine/queue_manager.py", "src/ganger/common/a.py"]
)
def test_a_module_with_an_empty_name_is_found(file: str) -> None:
    assert source_checks.find_forbidden_names(file)


def test_a_module_with_a_name_is_left_alone() -> None:
    assert not source_checks.find_forbidden_names("src/ganger/databases/sqlite/scribe.py")


def test_a_foreign_import_in_core_is_found_wherever_it_hides() -> None:
    tree = ast.parse(
        "import json\nfrom ganger.core.ids import TaskId\ndef f():\n    import msgspec\n    import ganger.engine"
    )

    assert len(source_checks.find_foreign_imports("core/a.py", tree, own="ganger.core")) == 2


@pytest.mark.parametrize("code", ["seen = {}", "seen: dict[int, int] = dict()", "seen = [n for n in range(3)]"])
def test_state_of_a_module_is_found(code: str) -> None:
    assert source_checks.find_module_state("a.py", ast.parse(code))


@pytest.mark.parametrize(
    "code", ["KNOWN: Final = {1: 2}", "__all__ = ['a']", "PAIR = (1, 2)", "def f():\n    seen = {}"]
)
def test_a_constant_is_no_state(code: str) -> None:
    assert not source_checks.find_module_state("a.py", ast.parse(code))


def test_a_generator_without_a_seed_is_found() -> None:
    tree = ast.parse("random.Random()\nrandom.Random(7)")

    assert len(source_checks.find_unseeded_generators("a.py", tree)) == 1


def test_a_sleep_is_found() -> None:
    tree = ast.parse("time.sleep(1)\nasyncio.sleep(0.1)\nwhile True:\n    time.sleep(1)")

    assert len(source_checks.find_sleeps("test_a.py", tree)) == 3


def test_a_pause_between_two_looks_is_no_sleep() -> None:
    tree = ast.parse("asyncio.sleep(0)\nwhile not done():\n    time.sleep(0.01)")

    assert not source_checks.find_sleeps("test_a.py", tree)


def test_a_module_without_a_sentence_is_found() -> None:
    assert source_checks.find_missing_docstring("a.py", ast.parse("import os"))
    assert not source_checks.find_missing_docstring("a.py", ast.parse('"""What it is."""'))


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT 1", 1),
        ("SELECT 1; -- done; really", 1),
        ("SELECT ';'; SELECT 2;", 2),
        ("CREATE TRIGGER a AFTER INSERT ON t BEGIN DELETE FROM u; DELETE FROM v; END;", 1),
        ("-- nothing", 0),
    ],
)
def test_statements_are_counted(sql: str, count: int) -> None:
    assert text_checks.count_statements(sql) == count


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# The `other` page\n")
    page.write_text("[a](other.md) [b](other.md#the-other-page) [c](https://example.org)\n")
    assert not text_checks.find_broken_links(page)

    page.write_text("[d](gone.md) [e](other.md#gone) [f](#gone)\n")

    assert [offence.what.split()[3] for offence in text_checks.find_broken_links(page)] == [
        "gone.md",
        "other.md#gone",
        "#gone",
    ]


@pytest.mark.parametrize("text", ["see " + "/ho" + "me/ann/ganger", "C" + ":\\Users\\ann"])
def test_a_path_of_a_machine_is_found(text: str) -> None:
    assert text_checks.find_machine_paths("a.md", text)


@pytest.mark.parametrize("text", ["/var/lib/ganger", "the /home page", "~/home/x", "api/home/x"])
def test_a_path_of_no_machine_is_left_alone(text: str) -> None:
    assert not text_checks.find_machine_paths("a.md", text)


def test_a_name_that_a_page_does_not_show_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n`shown` and hidden\n")

    assert [o.what for o in text_checks.find_undocumented(page, {"shown", "hidden"})] == ["`hidden` is not documented"]


def test_a_missing_section_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# 1. A title\n\n## Status\n\nAccepted.\n")

    assert len(text_checks.find_missing_sections(page, ("Status", "Context"))) == 1
