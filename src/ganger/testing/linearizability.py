"""Could one thread, doing one thing at a time, have given these answers?

A history is linearizable if every operation can be placed at one instant between its call and its return so that the
answers are those of a sequential model. The search is Wing and Gong's: of the operations that are still open, any that
was called before the first of the others returned may be next; try each, step the model, go back when it refuses.
Lowe's memo keeps it small: what follows depends only on which operations are placed and on the state they led to, so
each such pair is visited once.

A client that timed out does not know what happened, so its operation may take effect at any time after the call, even
long after the client gave up, or never. It has no return, can be placed anywhere after its call, and need not be
placed at all. Treating it as failed would accuse a correct store; treating it as done would excuse a wrong one.

The search is exponential in the worst case. Check one history for each task: tasks are independent, and a history of
independent parts is linearizable exactly if each of the parts is.
"""

import enum
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

OpT = TypeVar("OpT")
ResultT = TypeVar("ResultT")
StateT = TypeVar("StateT", bound=Hashable)
_Op_contra = TypeVar("_Op_contra", contravariant=True)
_Result_contra = TypeVar("_Result_contra", contravariant=True)


class Unknown(enum.Enum):
    """The result of an operation whose client never heard back."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


# Slots would forbid `Operation[A, B](...)` in Python 3.11: a frozen class with slots cannot take its type arguments.
@dataclass(frozen=True)
class Operation(Generic[OpT, ResultT]):
    """One operation as its client saw it; without a return it is unknown whether it took effect."""

    op: OpT
    called: int
    returned: int | None = None
    result: ResultT | Unknown = UNKNOWN


class Model(Protocol[StateT, _Op_contra, _Result_contra]):
    """What the system promises, as if it did one thing at a time. States are hashable values."""

    def start(self) -> StateT:
        """The state before the first operation."""
        ...

    def step(self, state: StateT, op: _Op_contra, result: _Result_contra | Unknown) -> StateT | None:
        """The state after the operation if it may give this result in this state, else None.

        With an unknown result: the state after whatever the model answers here.
        """
        ...


@dataclass(frozen=True)
class Verdict(Generic[OpT, ResultT]):
    """Whether a history is linearizable: a witness if so, else how far the best attempt came.

    `order` is a sequence of operations that explains all answers, or the longest that explains some of them; `stuck`
    are the operations of which one had to follow it and none could.
    """

    linearizable: bool
    order: tuple[Operation[OpT, ResultT], ...]
    stuck: tuple[Operation[OpT, ResultT], ...] = ()

    def __bool__(self) -> bool:
        return self.linearizable


def linearize(model: Model[StateT, OpT, ResultT], history: Iterable[Operation[OpT, ResultT]]) -> Verdict[OpT, ResultT]:
    """Search for an order of the history that the model accepts."""
    return _Search(model, history).run()


class _Search(Generic[StateT, OpT, ResultT]):
    def __init__(self, model: Model[StateT, OpT, ResultT], history: Iterable[Operation[OpT, ResultT]]) -> None:
        self._model = model
        self._ops = sorted(history, key=lambda operation: operation.called)
        self._known = sum(1 << index for index, operation in enumerate(self._ops) if operation.returned is not None)
        self._came: dict[tuple[int, StateT], tuple[tuple[int, StateT], int] | None] = {}

    def run(self) -> Verdict[OpT, ResultT]:
        start = (0, self._model.start())
        self._came[start] = None
        stack, best = [start], start
        while stack:
            spot = stack.pop()
            if spot[0] & self._known == self._known:
                return Verdict(True, self._path(spot))
            best = max(best, spot, key=self._placed)
            stack.extend(self._advance(spot))
        return Verdict(False, self._path(best), tuple(self._ops[index] for index in self._candidates(best[0])))

    def _advance(self, spot: tuple[int, StateT]) -> Iterator[tuple[int, StateT]]:
        placed, state = spot
        # The last one yielded is tried first: known operations before unknown ones, which may never have happened.
        for index in sorted(self._candidates(placed), key=lambda index: (bool(self._known >> index & 1), -index)):
            after = self._model.step(state, self._ops[index].op, self._ops[index].result)
            if after is None or (after == state and not self._known >> index & 1):
                continue
            following = (placed | 1 << index, after)
            if following not in self._came:
                self._came[following] = (spot, index)
                yield following

    def _candidates(self, placed: int) -> Iterator[int]:
        first = (~placed & (placed + 1)).bit_length() - 1
        deadline: int | None = None
        for index in range(first, len(self._ops)):
            if placed >> index & 1:
                continue
            operation = self._ops[index]
            if deadline is not None and operation.called > deadline:
                return
            yield index
            if operation.returned is not None:
                deadline = operation.returned if deadline is None else min(deadline, operation.returned)

    def _placed(self, spot: tuple[int, StateT]) -> int:
        return (spot[0] & self._known).bit_count()

    def _path(self, spot: tuple[int, StateT]) -> tuple[Operation[OpT, ResultT], ...]:
        order = []
        came = self._came[spot]
        while came is not None:
            spot, index = came
            order.append(self._ops[index])
            came = self._came[spot]
        return tuple(reversed(order))


def describe(verdict: Verdict[OpT, ResultT]) -> str:
    """A verdict for people: the order found, and where it could not go on."""
    lines = [_line(" ", operation) for operation in verdict.order]
    lines += [_line("?", operation) for operation in verdict.stuck]
    return "\n".join(lines)


def _line(sign: str, operation: Operation[OpT, ResultT]) -> str:
    end = "..." if operation.returned is None else str(operation.returned)
    return f"{sign} [{operation.called}, {end}] {operation.op} -> {operation.result}"
