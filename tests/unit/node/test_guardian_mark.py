"""A marked process is known again by its limit and by its environment, and by nothing that it can drop by accident."""

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ganger.node.guardian.mark import NONCES, SERIALS, VARIABLE, Mark
from ganger.node.guardian.tree import find_marked, kill_tree, read_children, read_parent, walk

MARK = Mark(0x123456789)


@contextmanager
def sleeper(environment: dict[str, str], limit: int | None = None) -> Iterator[int]:
    def mark() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_RTTIME, (limit, resource.RLIM_INFINITY))

    with subprocess.Popen(["sleep", "100"], env=environment, preexec_fn=mark) as process:  # noqa: PLW1509 - no threads
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("nonce", [0, 1, NONCES - 1])
@pytest.mark.parametrize("serial", [1, 77, SERIALS - 1])
def test_a_serial_is_read_from_the_limit(nonce: int, serial: int) -> None:
    with sleeper({}, Mark(nonce).limit(serial)) as pid:
        assert Mark(nonce).serial(pid) == serial
        assert Mark(nonce ^ 1).serial(pid) is None
        assert Mark(nonce).owner(pid) is None
        assert Mark(nonce).is_borne_by(pid)


def test_the_owner_is_read_from_the_environment() -> None:
    with sleeper({VARIABLE: MARK.variable(22, 3), "A": "b"}) as pid:
        assert MARK.owner(pid) == (22, 3)
        assert MARK.serial(pid) is None
        assert Mark(5).owner(pid) is None
        assert pid in find_marked(MARK)


def test_a_mark_that_somebody_spoiled_is_still_a_mark() -> None:
    with sleeper({VARIABLE: f"{MARK.nonce:09x}:not-a-task"}) as pid:
        assert MARK.owner(pid) == (0, 0)
        assert MARK.is_borne_by(pid)


def test_an_unmarked_process_is_nobodys() -> None:
    with sleeper({}) as pid:
        assert not MARK.is_borne_by(pid)
    assert not MARK.is_borne_by(1 << 22)


def test_a_tree_is_walked_and_killed_whole() -> None:
    script = "sleep 100 & (sleep 100 & sleep 100) & read line"
    with subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE) as process:
        while len(walk([process.pid], os.getpid())) < 5:
            assert process.poll() is None
            time.sleep(0.001)
        tree = walk([process.pid], os.getpid())
        assert tree[process.pid] == os.getpid() == read_parent(process.pid)
        assert process.pid in read_children(os.getpid())
        assert kill_tree([process.pid], os.getpid()) == []
        process.wait()
        while any(read_parent(pid) is not None for pid in tree):
            time.sleep(0.001)


def test_a_process_that_is_gone_has_no_parent_and_no_children() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert read_parent(process.pid) is None
    assert read_children(process.pid) == []
    assert kill_tree([process.pid], os.getpid()) == []
