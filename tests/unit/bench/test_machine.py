"""The machine is described by what matters for a durable figure."""

from __future__ import annotations

from pathlib import Path

from bench.machine import describe_machine, has_no_disk, name_filesystem, time_fsync

_MOUNTS = """/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/a\\040disk xfs rw 0 0
"""


def test_the_filesystem_is_that_of_the_innermost_mount() -> None:
    assert name_filesystem(Path("/srv"), _MOUNTS) == "ext4"
    assert name_filesystem(Path("/tmp/x"), _MOUNTS) == "tmpfs"
    assert name_filesystem(Path("/tmp/a disk/x"), _MOUNTS) == "xfs"


def test_a_later_mount_hides_an_earlier_one() -> None:
    assert name_filesystem(Path("/tmp/x"), _MOUNTS + "/dev/vdc /tmp ext4 rw 0 0\n") == "ext4"


def test_an_unknown_system_has_an_unknown_filesystem() -> None:
    assert name_filesystem(Path("/tmp"), "") == "unknown"


def test_a_folder_in_memory_is_told_from_a_disk() -> None:
    assert has_no_disk({"filesystem": "tmpfs"})
    assert not has_no_disk({"filesystem": "ext4"})


def test_timing_a_sync_leaves_nothing_behind(tmp_path: Path) -> None:
    assert time_fsync(tmp_path, times=3) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_description_names_the_versions_of_sqlite(tmp_path: Path) -> None:
    assert {"sqlite_apsw", "sqlite_stdlib", "fsync_ms", "cpus"} <= describe_machine(tmp_path).keys()
