"""The branches of conditions in a graph: who follows which, and that only conditions have them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from ganger.cli.tasks import Wish, split_edge
from ganger.core.errors import BadInput
from ganger.core.graph import On
from ganger.wire.specs import Expression

_CHOICES = (On.THEN.value, On.ELSE.value)


class Branches(NamedTuple):
    """The names that a condition gives for those who follow it."""

    then: list[str]
    other: list[str]


def join_branches(wishes: Mapping[str, Wish], branches: Mapping[str, Branches]) -> dict[str, Wish]:
    """The wishes, with children that conditions name waiting for them. BadInput if a branch leads nowhere."""
    joined = dict(wishes)
    for name, child, on in _named(branches):
        if child not in joined:
            raise BadInput(f"task {name!r}: {on} names {child!r:.80}; known are {', '.join(list(wishes)[:20])}")
        edge = f"{name}:{on}"
        if edge not in joined[child].after:
            joined[child] = replace(joined[child], after=[*joined[child].after, edge])
    chosen = {split_edge(text) for wish in joined.values() for text in wish.after}
    for name, on in sorted(chosen):
        if name in joined and on in _CHOICES:
            joined[name] = _open_branch(name, joined[name], on)
    for name in joined:
        _refuse_unsure(name, joined)
    return joined


def _named(branches: Mapping[str, Branches]) -> Iterator[tuple[str, str, str]]:
    for name, (then, other) in branches.items():
        yield from ((name, child, _CHOICES[0]) for child in then)
        yield from ((name, child, _CHOICES[1]) for child in other)


def _refuse_unsure(name: str, wishes: Mapping[str, Wish]) -> None:
    """An expression knows its parents by their rank, which nobody knows of a task that may be there already."""
    spec, above = wishes[name].condition, {split_edge(text)[0] for text in wishes[name].after}
    if spec is None or not isinstance(spec.probe, Expression) or len(above) < 2:
        return
    if once := [parent for parent in above if parent in wishes and wishes[parent].once]:
        raise BadInput(
            f"task {name!r} has several parents, and {once[0]!r} is `once`: ask about it in a condition alone"
        )


def _open_branch(name: str, wish: Wish, on: str) -> Wish:
    """A wait that has a way to go on when it was in vain goes it: it does not fail at its deadline."""
    spec = wish.condition
    if spec is None:
        raise BadInput(f"task {name!r} is neither an if nor an until, and so nothing can wait for its {on!r}")
    if on == On.THEN or not spec.wait:
        return wish
    if spec.deadline is None and not isinstance(spec.probe, Expression):
        raise BadInput(f"task {name!r} waits for ever, and so its `else` never comes: give it a deadline")
    return replace(wish, condition=replace(spec, otherwise=True))
