"""The server of a run keeps its promises and goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers.postgres_server import find_binaries, run_server, server_arguments
from bench.peers.settings import PostgresSettings
from bench.work import NotMeasuredError


def test_a_durable_server_that_listens_on_its_socket_alone() -> None:
    arguments = server_arguments(Path("/place"), PostgresSettings())
    assert {"fsync=on", "synchronous_commit=on", "full_page_writes=on"} <= set(arguments)
    assert {"listen_addresses=", "unix_socket_directories=/place"} <= set(arguments)


def test_a_missing_server_comes_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotMeasuredError, match="apt-get install postgresql"):
        find_binaries(debian=tmp_path)


def test_debians_newest_version_is_taken(tmp_path: Path) -> None:
    for version in ("9.6", "15", "8"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    assert find_binaries(debian=tmp_path) == tmp_path / "15" / "bin"


@pytest.mark.slow
def test_a_server_is_reached_by_its_socket_and_gone_afterwards() -> None:
    try:
        find_binaries()
    except NotMeasuredError as missing:
        pytest.skip(str(missing))
    with run_server(PostgresSettings(), Path("/tmp")) as socket:
        assert (Path(socket) / ".s.PGSQL.5432").is_socket()
    assert not Path(socket).exists()
