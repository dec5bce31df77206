"""What an app does again and again: schedules are declared where their work is, and written to the store later.

Declaring opens no store: a module may be imported anywhere. `App.sync_schedules` writes what is declared, and so does a
node that is told of the app when it comes up.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypedDict, TypeVar, overload

from ganger.client.calls import Call, Sender, draft
from ganger.client.function import Function, Mode
from ganger.client.options import Options, Wishes, refuse_strangers
from ganger.client.transport import Plan
from ganger.core.errors import BadInput
from ganger.core.schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Check = Callable[[Schedule], Schedule]
"""The schedule, if it makes sense; BadInput says what does not."""

_TIMING: Final = {"tz": "zone", "missed": "missed", "overlap": "overlap", "most": "most"}


class Timing(TypedDict, total=False):
    """How a schedule goes.

    `tz`: whose clock a cron text is by. `missed`: what becomes of late ticks, `skip`, `once` (the newest) or `all`, of
    which the newest `most`. `overlap`: a tick is made even while the task of the one before has not ended.
    """

    tz: str
    missed: str
    overlap: bool
    most: int


class FunctionTiming(Wishes, Timing, total=False):
    """How a function is called again and again. `name` None is its import path; `args`, `kwargs` are what it is given.

    The rest are options of each of its tasks, and of the function; a key and a delay are the tick's own.
    """

    name: str | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    mode: Mode | None


class Timetable:
    """The schedules that an app declares, by name."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._plans: dict[str, Plan] = {}

    def __iter__(self) -> Iterator[Plan]:
        return iter(self._plans.values())

    def __len__(self) -> int:
        return len(self._plans)

    def add(self, schedule: Schedule, call: Call[Any]) -> None:
        """Declare one. To say the same again changes nothing. BadInput: it makes no sense, or the name is taken."""
        plan = Plan(self._check(schedule), draft(call))
        task = plan.draft.task
        if task.parents or task.key is not None or task.delay:
            raise BadInput("the task of a tick has its own key and its own time, and waits for no other task")
        if self._plans.setdefault(schedule.name, plan) != plan:
            raise BadInput(f"another schedule of this app is called {schedule.name!r:.80}: give one of them a name=")


def read_timing(timing: Mapping[str, Any], **when: Any) -> dict[str, Any]:
    """The fields of a schedule, out of keywords."""
    return when | {_TIMING[name]: value for name, value in timing.items() if name in _TIMING}


class ScheduleDecorator:
    """`@app.cron("0 2 * * *")`: when is known, the function comes."""

    def __init__(self, sender: Sender, timetable: Timetable, when: Mapping[str, Any], said: FunctionTiming) -> None:
        refuse_strangers(said, FunctionTiming)
        self._sender = sender
        self._timetable = timetable
        self._fields = read_timing(said, **when)
        self._name = said.get("name")
        self._args, self._kwargs = list(said.get("args", ())), dict(said.get("kwargs", {}))
        self._mode = said.get("mode")
        self._wishes: dict[str, Any] = {name: value for name, value in said.items() if name in Wishes.__annotations__}

    @overload
    def __call__(self, function: Function[P, R, T]) -> Function[P, R, T]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Function[P, Coroutine[object, object, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> Function[P, T, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        made = function if isinstance(function, Function) else self._make(function)
        call = made.using(**self._wishes).prepare(self._args, self._kwargs)
        self._timetable.add(Schedule(self._name or made.path, **self._fields), call)
        return made

    def _make(self, function: Callable[..., Any]) -> Function[..., Any, Any]:
        return Function(self._sender, function, Options(**self._wishes), self._mode)
