"""What a service manager is told."""

import socket
from pathlib import Path

import pytest

from ganger.runtime.machine import feel_machine
from ganger.runtime.notify import Notifier


@pytest.mark.parametrize("is_abstract", [True, False])
def test_lines_go_to_the_socket_as_one_message(tmp_path: Path, is_abstract: bool) -> None:
    place = f"@{tmp_path}/abstract" if is_abstract else f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(place.replace("@", "\0"))
        manager.settimeout(60)

        assert Notifier(place).tell("READY=1", "STATUS=takes tasks")
        assert manager.recv(100) == b"READY=1\nSTATUS=takes tasks"


@pytest.mark.parametrize("address", [None, "", "/no/such/socket", "/" + "long" * 100])
def test_nobody_to_hear_it_is_no_error(address: str | None) -> None:
    assert not Notifier(address).tell("READY=1")


def test_the_machine_says_how_full_it_is() -> None:
    machine = feel_machine()

    assert 0 < machine.memory < machine.size
    assert machine.load >= 0
