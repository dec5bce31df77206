"""The jobs door as the settings want it."""

import re
from typing import Final

from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput
from ganger.engine.engine import Engine
from ganger.faces.http.grants import Keeper
from ganger.faces.jobs.backend import JobLimits, JobsBackend, JobsPlan
from ganger.faces.jobs.types import JobPolicy, open_types, read_types
from ganger.faces.jobs.workers import Workers
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.telemetry import Telemetry
from ganger.wire.jobs.machine import Pace

_TIME: Final = re.compile(r"(\d{1,9})(ms|s|m|)", re.ASCII)
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "": 1_000}
_LARGEST: Final = 1 << 40


def read_plan(settings: Settings) -> JobsPlan:
    """What the settings say of jobs and workers; BadInput names the one that is wrong."""
    silence = _read_time("worker_silence", settings.worker_silence, 1_000)
    plain = Pace()
    return JobsPlan(
        read_types(settings.job_types),
        JobPolicy(_read_whole("job_batch", settings.job_batch), _read_whole("job_tries", settings.job_tries)),
        Pace(
            grace=_read_time("worker_grace", settings.worker_grace, 1),
            # Two requests must have had their time before the silence is over.
            every=min(plain.every, silence // 3),
            silence=silence,
            fresh=max(plain.fresh, silence),
        ),
        JobLimits(frame=_read_whole("worker_frame", settings.worker_frame)),
        _read_switch("worker_auth", settings.worker_auth),
    )


async def open_jobs(plan: JobsPlan, engine: Engine, keeper: Keeper, telemetry: Telemetry) -> JobsBackend:
    """The jobs door over an engine. Conflict if the store does not go with the types that are set."""
    await open_types(engine, plan.types, plan.policy)
    tag = (await engine.store.directory()).tag
    clock = SystemClock()
    return JobsBackend(engine, clock, SystemEntropy(), keeper, tag, Workers(clock), plan, telemetry)


def _read_time(name: str, text: str, least: int) -> int:
    found = _TIME.fullmatch(text)
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if length < least:
        raise BadInput(f"{name} is {text!r:.40}; write 500ms, 30s or 2m", field=name)
    return length


def _read_whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and 0 < int(text) <= _LARGEST):
        raise BadInput(f"{name} is {text!r:.40}; give a whole number from 1 to {_LARGEST}", field=name)
    return int(text)


def _read_switch(name: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise BadInput(f"{name} is {text!r:.40}; write on or off", field=name)
    return text == "on"
