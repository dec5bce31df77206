"""One job from its spec to its result: whatever the function does, there is a result that says it."""

import asyncio
import traceback
from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput, NotRegistered
from ganger.core.outcome import Fail, Killed, Release
from ganger.core.signals import Cancel, Retry, Snooze, outcome_of
from ganger.node.functions.binding import NOTHING, Allowed, Target, find
from ganger.node.functions.context import CURRENT, Context
from ganger.node.functions.logs import hear_logging
from ganger.node.functions.messages import ENCODER, LARGEST_RESULT, How, Job, Result
from ganger.node.functions.track import Capture
from ganger.node.masking import mask, mask_all
from ganger.runtime import django
from ganger.wire.arguments import convert_arguments
from ganger.wire.specs import FunctionSpec, decode
from ganger.wire.unreadable import UNREADABLE
from ganger.wire.values import encode, has_words, read, spell

_HEAD: Final = 2_000
_TAIL: Final = 6_000
_OURS: Final = (__package__, "ganger.client")
"""Whose frames lie above those of a function: this package calls it, and a decorated one calls itself."""

_SPEC: Final = msgspec.json.Decoder(FunctionSpec)


class Said(NamedTuple):
    """How it ended, and the words that go with that."""

    how: How
    body: bytes = b""


DONE: Final = Said(How.SUCCEEDED)


class Executor:
    """Executes jobs; the functions that it has found are kept. `project` names the settings of a Django project."""

    def __init__(
        self, capture: Capture, project: str = "", allowed: Allowed = NOTHING, *, sends_async_away: bool
    ) -> None:
        self.capture = capture
        self.project = project
        self._allowed = allowed
        self._sends_async_away = sends_async_away
        self._targets: dict[str, Target] = {}

    def execute(self, job: Job, context: Context) -> bytes:
        """Run it to its end, in this thread; the encoded result."""
        CURRENT.set(context)
        try:
            said = self._call(job)
        except BaseException as error:
            said = explain(error)
        return self.seal(job, context, said)

    def seal(self, job: Job, context: Context, said: Said) -> bytes:
        if job.masks:
            said = hide(said, job.masks)
        printed = self.capture.collect(context)
        if printed is None:
            return ENCODER.encode(job.seq if said is DONE else Result(job.seq, said.how, said.body))
        return ENCODER.encode(Result(job.seq, said.how, said.body, *printed))

    def prepare(self, job: Job) -> tuple[FunctionSpec, Target]:
        """What it asks for. BadInput: it asks for nothing that can be done."""
        spec = read_spec(job.spec)
        target = self._targets.get(spec.path)
        if target is None:
            target = self._targets[spec.path] = self._find(spec.path)
        return spec, target

    def _find(self, path: str) -> Target:
        if self.project:
            django.set_up(self.project)
        target = find(path, self._allowed)
        hear_logging()
        return target

    def _call(self, job: Job) -> Said:
        spec, target = self.prepare(job)
        if target.is_async and self._sends_async_away and spec.mode is None:
            return Said(How.BOUNCED, spec.path.encode())
        if self.project:
            with django.around():
                return self._finish(spec, target)
        return self._finish(spec, target)

    def _finish(self, spec: FunctionSpec, target: Target) -> Said:
        result = call(spec, target)
        if result is None:
            return DONE
        result = asyncio.run(self.wait(result)) if isawaitable(result) else result
        return succeed(spec.path, result, target.parameters.returns)

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        """What a coroutine comes to."""
        if not self.project:
            return await awaitable
        async with django.around_async():
            return await awaitable


def read_spec(body: bytes) -> FunctionSpec:
    """What is to be called with what. BadInput: it is no spec of a function."""
    try:
        spec = _SPEC.decode(body)
    except UNREADABLE:
        spec = decode(body, FunctionSpec)
    if not (spec.args or spec.kwargs) or not has_words(body):
        return spec
    return msgspec.structs.replace(spec, args=read(spec.args), kwargs=read(spec.kwargs))


def call(spec: FunctionSpec, target: Target) -> Any:
    if not target.parameters.by_name:
        return target.call(*spec.args, **spec.kwargs)
    args, kwargs = convert_arguments(target.parameters, spec.args, spec.kwargs)
    return target.call(*args, **kwargs)


def succeed(path: str, result: Any, returns: Any = Any) -> Said:
    """The result as JSON, true to its type. One that is none, or too large, fails the task: it would fail again."""
    if result is None:
        return DONE
    try:
        body = encode(spell(result, returns))
    except BadInput as error:
        return Said(How.HOPELESS, f"{path} returned {_type_name(result)}, which is not JSON: {error.message}".encode())
    except Exception as error:
        return Said(How.HOPELESS, f"{path} returned {_type_name(result)}, which is not JSON: {_print(error)}".encode())
    if len(body) > LARGEST_RESULT:
        text = f"{path} returned {len(body)} bytes; at most {LARGEST_RESULT} are kept: write them to a file instead"
        return Said(How.HOPELESS, text.encode())
    return Said(How.SUCCEEDED, body)


def hide(said: Said, masks: Sequence[bytes]) -> Said:
    """The same words without the secrets that were among the arguments. Numbers for the node stay as they are."""
    match said.how:
        case How.SUCCEEDED if said.body:
            return Said(said.how, msgspec.json.encode(mask_all(msgspec.json.decode(said.body), masks)))
        case How.RETRIED:
            delay, _, reason = said.body.partition(b" ")
            return Said(said.how, delay + b" " + mask(reason, masks))
        case How.FAILED | How.HOPELESS | How.CANCELLED | How.STOPPED:
            return Said(said.how, mask(said.body, masks))
        case _:
            return said


def explain(error: BaseException) -> Said:
    """What an exception makes of the job that raised it, even if it cannot be asked for its words."""
    try:
        return _explain(error)
    except Exception:
        return Said(How.FAILED, f"{_type_name(error)} was raised, and cannot be printed".encode())


def _explain(error: BaseException) -> Said:
    match error:
        case Retry() | Snooze() | Cancel():
            return _signal(error)
        case BadInput() | NotRegistered():
            return Said(How.HOPELESS, str(error).encode("utf-8", "replace"))
        case SystemExit():
            return Said(How.FAILED, f"it called exit({error.code!r:.100}); a function ends by returning".encode())
        case asyncio.CancelledError():
            return Said(How.STOPPED, b"it was cancelled")
        case _:
            return Said(How.FAILED, _print(error).encode("utf-8", "replace"))


def confess(job: Job, error: BaseException) -> bytes:
    """The encoded result of a job that broke what executes it."""
    text = f"what executes functions broke on it: {_write(error, error.__traceback__)}"
    return ENCODER.encode(Result(job.seq, How.BROKEN, mask(text.encode("utf-8", "replace"), job.masks)))


def _signal(error: Retry | Snooze | Cancel) -> Said:
    outcome = outcome_of(error)
    match outcome:
        case Release(delay=delay):
            return Said(How.RELEASED, str(int(delay)).encode())
        case Killed(reason=reason):
            return Said(How.CANCELLED, str(reason).encode("utf-8", "replace"))
        case Fail(reason=reason, delay=int(delay)):
            return Said(How.RETRIED, f"{delay} {reason}".encode("utf-8", "replace"))
        case Fail(reason=reason):
            return Said(How.FAILED, str(reason).encode("utf-8", "replace"))
        case _:
            return Said(How.FAILED, str(error).encode("utf-8", "replace"))


def _print(error: BaseException) -> str:
    """The traceback as text, without our own frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") in _OURS:
        frames = frames.tb_next
    return _write(error, frames)


def _write(error: BaseException, frames: TracebackType | None) -> str:
    """The middle of a long text is left out, its end never."""
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        text = f"{_type_name(error)} was raised, and cannot be printed"
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n[...]\n{text[-_TAIL:]}"


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
