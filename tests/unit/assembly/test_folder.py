"""The folder of a node: who has it, and who had it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ganger.assembly.folder import NodeFolder, find_process, locate_nodes, make_nodes, read_epoch
from ganger.testing.clock import SeededEntropy


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_the_folders_of_nodes_are_for_their_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    nodes = locate_nodes(tmp_path / "tasks.db")
    before = os.umask(umask)
    try:
        make_nodes(nodes)
        NodeFolder.open(nodes / "here", SeededEntropy(1)).close()
    finally:
        os.umask(before)

    assert [path.stat().st_mode & 0o777 for path in (nodes, nodes / "here")] == [0o700, 0o700]


def test_a_folder_of_nodes_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    nodes = locate_nodes(tmp_path / "tasks.db")
    nodes.mkdir()
    nodes.chmod(0o755)

    make_nodes(nodes)

    assert nodes.stat().st_mode & 0o777 == 0o700


def test_the_process_that_has_the_folder_is_found_while_it_has_it(tmp_path: Path) -> None:
    assert (find_process(tmp_path), read_epoch(tmp_path)) == (None, 0)
    folder = NodeFolder.open(tmp_path, SeededEntropy(1))
    assert (find_process(tmp_path), read_epoch(tmp_path)) == (os.getpid(), 1)
    folder.close()
    assert find_process(tmp_path) is None, "the number alone proves nothing"


def test_a_number_that_is_another_processes_by_now_is_nobodys(tmp_path: Path) -> None:
    folder = NodeFolder.open(tmp_path, SeededEntropy(1))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for text in (str(other.pid), "999999999", "none", "-1", ""):
            (tmp_path / "pid").write_text(text)
            assert find_process(tmp_path) is None
        other.communicate(b"\n")
    folder.close()
