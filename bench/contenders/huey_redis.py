"""Huey on Redis: workers that block on the queue, no results."""

from __future__ import annotations

from huey import RedisHuey

from bench.contender import Contender
from bench.contenders.huey import consume, make_submit
from bench.contenders.redis import empty, socket_url
from bench.peers.settings import HueyRedisSettings

_SETTINGS = HueyRedisSettings()

huey = RedisHuey("bench", url=socket_url(), results=_SETTINGS.results, blocking=_SETTINGS.blocking)

CONTENDER = Contender(consume("huey_redis", _SETTINGS.workers, _SETTINGS.worker_type), make_submit(huey), empty)
