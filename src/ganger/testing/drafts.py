"""What Hypothesis draws for the model tests: policies of queues, tasks to be, notes, edits."""

from typing import Final, NamedTuple

from hypothesis import strategies as st

from ganger.core.graph import On
from ganger.core.ids import Fence, TaskId
from ganger.core.queue import Policy, Sort
from ganger.core.state import RULES
from ganger.core.task import Kind
from ganger.engine.store import Chunk, Datum, Note, Progress, Touch

INNER: Final = frozenset({"claim", "take", "block", "unblock", "unblock_later"})
"""Rules that a store applies by itself."""

RULE_NAMES: Final = sorted(set(RULES) - INNER)
OPERATOR_RULES: Final = ("hold", "kick", "kick_to_block", "cancel", "conclude", "conclude_failed", "promote", "lose")
EDITS: Final = ("change", "change", "kill", "remove", "remove below", "link", "link", "unlink", "close")
RARELY: Final = (False,) * 9 + (True,)
LEASES: Final = (1_000, 20_000)
PICK: Final = st.integers(min_value=0, max_value=1_000)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        sort=draw(st.sampled_from([Sort.FIFO, Sort.LIFO])),
        max_active=draw(st.sampled_from([None, None, 2])),
        max_per_node=draw(st.sampled_from([None, None, 1])),
        max_per_key=draw(st.sampled_from([None, 1, 2])),
        batch_size=draw(st.sampled_from([None, 2])),
    )


POLICIES: Final = policies()


class Draft(NamedTuple):
    """A task to be, in numbers that mean the same on both sides once they are turned into ordinals."""

    queue: int
    kind: str
    priority: int
    delay: int
    parents: tuple[tuple[int, str], ...]
    any_join: bool
    group: int | None
    key: str | None
    returns: bool
    limit_key: str | None
    ttr: int | None
    open_group: bool


DRAFTS: Final = st.builds(
    Draft,
    queue=PICK,
    kind=st.sampled_from(["command", "command", "shell", Kind.CONDITION, Kind.GROUP]),
    priority=st.integers(0, 2),
    delay=st.sampled_from([0, 0, 0, 10, 5_000]),
    parents=st.lists(st.tuples(PICK, st.sampled_from(list(On))), max_size=3).map(tuple),
    any_join=st.booleans(),
    group=st.none() | PICK,
    key=st.sampled_from([None, None, "a", "b"]),
    returns=st.booleans(),
    limit_key=st.sampled_from([None, None, "x", "y"]),
    ttr=st.sampled_from([None, None, 1_000]),
    open_group=st.booleans(),
)


def write_note(task: TaskId, fence: Fence, kind: str) -> Note:
    match kind:
        case "touch":
            return Note(task, fence, touch=Touch(3_000))
        case "progress":
            return Note(task, fence, progress=Progress(50.0, "half"))
        case "chunk":
            return Note(task, fence, chunk=Chunk("stdout", 0, b"output"))
        case _:
            return Note(task, fence, datum=Datum("note", kind.encode(), only_if_unset=kind == "unset"))
