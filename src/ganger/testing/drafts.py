"""What Hypothesis draws for the model tests: policies of queues, tasks to be, notes, and what disturbs the work."""

from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from ganger.core.graph import On
from ganger.core.ids import Fence, TaskId
from ganger.core.queue import Policy, Sort
from ganger.core.state import RULES
from ganger.core.task import Kind
from ganger.engine.store import Chunk, Datum, Note, Progress, Touch

INNER: Final = frozenset({"claim", "take", "block", "unblock", "unblock_later"})
"""Rules that a store applies by itself."""

RULE_NAMES: Final = ("succeed", "fail", *sorted(set(RULES) - INNER))
OPERATOR_RULES: Final = ("hold", "kick", "kick_to_block", "cancel", "conclude", "conclude_failed", "promote", "lose")
EDITS: Final = ("change", "kill", "remove", "remove below", "link", "link", "unlink", "close")
NOTES: Final = ("touch", "progress", "datum", "unset", "chunk")
LEASES: Final = (3_000, 600_000)
PICK: Final = st.integers(min_value=0, max_value=1_000)
OFF: Final = st.sampled_from([0, 0, 0, 0, 1, -1])
"""How far a fence is from the right one."""


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


class Asked(NamedTuple):
    """A claim to be."""

    node: int
    queues: tuple[int, ...]
    most: int
    start: bool
    names: tuple[int, ...]


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        sort=draw(st.sampled_from([Sort.FIFO, Sort.LIFO])),
        max_active=draw(st.sampled_from([None, None, 3])),
        max_per_node=draw(st.sampled_from([None, None, 2])),
        max_per_key=draw(st.sampled_from([None, 1, 2])),
        batch_size=draw(st.sampled_from([None, 2])),
    )


DRAFTS: Final = st.builds(
    Draft,
    queue=PICK,
    kind=st.sampled_from(["command", "command", "command", "shell", Kind.CONDITION, Kind.GROUP]),
    priority=st.integers(0, 2),
    delay=st.sampled_from([0, 0, 0, 10, 2_000]),
    parents=st.lists(st.tuples(PICK, st.sampled_from([On.SUCCESS, *On])), max_size=2).map(tuple),
    any_join=st.booleans(),
    group=st.none() | PICK,
    key=st.sampled_from([None, None, None, "a", "b"]),
    returns=st.booleans(),
    limit_key=st.sampled_from([None, "x", "y"]),
    ttr=st.sampled_from([None, None, 2_000]),
    open_group=st.booleans(),
)

CLAIMS: Final = st.builds(
    Asked,
    node=PICK,
    queues=st.lists(PICK, min_size=1, max_size=3).map(tuple),
    most=st.integers(1, 4),
    start=st.booleans(),
    names=st.just(()) | st.just(()) | st.lists(PICK, min_size=1, max_size=2).map(tuple),
)

SAID: Final = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([None, 1]),
        "reason": st.sampled_from([None, "why"]),
        "result": st.sampled_from([None, b"r"]),
        "avoid": st.sampled_from([0, 0, 30_000]),
        "crashed": st.booleans(),
    }
)


def disturb(name: str, /, **drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(drawn))


_PAUSES: Final = st.sampled_from([None, 0, 0, 2_000])
_TOKENS: Final = st.sampled_from(["t", "t", "t", "u"])
DISTURBANCES: Final = st.one_of(
    disturb("make_queue", policy=policies(), becomes=st.none() | PICK),
    disturb("change_queue", pick=PICK, policy=st.none() | policies(), pause=_PAUSES),
    disturb("delete_queue", pick=PICK, drop=st.booleans()),
    disturb("register", name=st.sampled_from(["a", "b", "c"]), lease=st.sampled_from(LEASES), token=_TOKENS),
    disturb(
        "change_node", pick=PICK, what=st.sampled_from(["beat", "beat", "drain", "resume", "leave"]), token=_TOKENS
    ),
    disturb("prune"),
    disturb("jump", milliseconds=st.sampled_from([-1_000, 1_000])),
)
"""The name of a method of the machine, and what it is called with."""


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
