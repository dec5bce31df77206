"""What the contenders on Redis share: an empty database behind a unix socket."""

from __future__ import annotations

from redis import Redis

from bench.place import find_place


def socket_url() -> str:
    return f"unix://{find_place().redis}"


def connect() -> Redis:
    return Redis(unix_socket_path=find_place().redis)


def empty() -> None:
    with connect() as client:
        client.flushall()
