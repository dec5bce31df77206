"""The folder of a node: who has it, and who had it."""

import os
import subprocess
import sys
from pathlib import Path

from ganger.assembly.folder import NodeFolder, find_process, read_epoch
from ganger.testing.clock import SeededEntropy


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
