"""The Redis of a run is reached by its socket and goes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers.redis_server import find_redis, redis_arguments, run_redis
from bench.peers.settings import RedisSettings
from bench.work import NotMeasuredError


def test_a_server_that_listens_on_its_socket_alone_and_keeps_nothing() -> None:
    arguments = redis_arguments("redis-server", Path("/place/socket"), RedisSettings())
    pairs = set(zip(arguments[1::2], arguments[2::2], strict=True))
    assert {("--port", "0"), ("--unixsocket", "/place/socket"), ("--appendonly", "no"), ("--save", "")} <= pairs


def test_a_missing_server_comes_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotMeasuredError, match="apt-get install redis-server"):
        find_redis()


@pytest.mark.slow
def test_a_server_is_there_and_gone_afterwards() -> None:
    try:
        find_redis()
    except NotMeasuredError as missing:
        pytest.skip(str(missing))
    with run_redis(RedisSettings(), Path("/tmp")) as socket:
        assert Path(socket).is_socket()
    assert not Path(socket).parent.exists()
