"""Where a node finds the plugins that queues name."""

from pathlib import Path

import pytest

from ganger.node.plugins import find_plugin


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "printing"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('it is not to be imported to be found')")
    (package / "paper.py").write_text("")
    info = tmp_path / "printing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: printing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ganger.plugins]\nprint = printing.paper:Printer\n")
    return tmp_path


def test_a_class_is_found_in_the_folders_of_the_node_alone(folder: Path) -> None:
    found = find_plugin("printing.paper:Printer", [str(folder)])

    assert found is not None
    assert found.words[-1] == "printing.paper:Printer"
    assert find_plugin("printing.paper:Printer") is None
    assert find_plugin("printing.ink:Printer", [str(folder)]) is None


def test_an_entry_point_is_found_there_too(folder: Path) -> None:
    found = find_plugin("print", [str(folder / "not there"), str(folder)])

    assert found is not None
    assert found.words[-1] == "printing.paper:Printer"
    assert find_plugin("print") is None


def test_a_program_is_found_by_its_absolute_path(tmp_path: Path) -> None:
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\n")

    assert find_plugin(str(program)) is None
    program.chmod(0o755)
    assert find_plugin(str(program)) is not None


def test_a_name_may_have_the_colons_of_another_language(folder: Path) -> None:
    entries = folder / "printing-1.0.dist-info" / "entry_points.txt"
    entries.write_text("[ganger.plugins]\nPrint::Plugin::Paper = printing.paper:Printer\n")

    found = find_plugin("Print::Plugin::Paper", [str(folder)])
    assert found is not None
    assert found.words[-1] == "printing.paper:Printer"
    assert find_plugin("Print::Plugin::Ink", [str(folder)]) is None


def test_a_node_may_be_told_what_a_name_is(folder: Path) -> None:
    named = {"My::Printer": "printing.paper:Printer", "Shell": "/bin/sh", "Gone": "/no/such/program"}

    found = find_plugin("My::Printer", [str(folder)], named)
    assert found is not None
    assert (found.name, found.words[-1]) == ("My::Printer", "printing.paper:Printer")
    program = find_plugin("Shell", named=named)
    assert program is not None
    assert program.words == ("/bin/sh",)
    assert find_plugin("Gone", named=named) is None


def test_the_demo_of_disbatch_is_shipped() -> None:
    found = find_plugin("Disbatch::Plugin::Demo")

    assert found is not None
    assert found.words[-1] == "ganger.node.demo:Demo"
