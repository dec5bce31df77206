"""The jobs door as the settings want it."""

from ganger.assembly.settings import Settings
from ganger.assembly.values import read_time, read_whole
from ganger.core.errors import BadInput
from ganger.engine.engine import Engine
from ganger.faces.http.grants import Keeper
from ganger.faces.jobs.backend import JobLimits, JobsBackend, JobsPlan
from ganger.faces.jobs.storing import Storing
from ganger.faces.jobs.types import JobPolicy, open_types, read_types
from ganger.faces.jobs.workers import Workers
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.telemetry import Telemetry
from ganger.wire.jobs.machine import Pace


def read_plan(settings: Settings) -> JobsPlan:
    """What the settings say of jobs and workers; BadInput names the one that is wrong."""
    silence = read_time("worker_silence", settings.worker_silence, 1_000)
    back = read_time("worker_return", settings.worker_return, 1_000)
    plain = Pace()
    return JobsPlan(
        read_types(settings.job_types),
        JobPolicy(read_whole("job_batch", settings.job_batch), read_whole("job_tries", settings.job_tries)),
        Pace(
            grace=read_time("worker_grace", settings.worker_grace, 1),
            # Two requests must have had their time before the silence is over.
            every=min(plain.every, silence // 3),
            silence=silence,
            fresh=max(plain.fresh, silence),
        ),
        _set_limits(read_whole("worker_frame", settings.worker_frame), back),
        _read_switch("worker_auth", settings.worker_auth),
    )


def _set_limits(frame: int, back: int) -> JobLimits:
    plain = JobLimits()
    # One that is back on another server is renewed there before the time that was set here is over.
    return plain._replace(frame=frame, back=back, beat=min(plain.beat, back / 2000), polled=max(plain.polled, back))


async def open_jobs(plan: JobsPlan, engine: Engine, keeper: Keeper, telemetry: Telemetry) -> JobsBackend:
    """The jobs door over an engine. Conflict if the store does not go with the types that are set."""
    await open_types(engine, plan.types, plan.policy)
    tag = (await engine.store.directory()).tag
    clock = SystemClock()
    workers = Workers(clock, telemetry)
    return JobsBackend(engine, clock, SystemEntropy(), keeper, tag, workers, plan, Storing(engine), telemetry)


def _read_switch(name: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise BadInput(f"{name} is {text!r:.40}; write on or off", field=name)
    return text == "on"
