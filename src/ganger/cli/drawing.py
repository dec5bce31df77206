"""A graph as text for people, and as DOT for programs that draw."""

import json
from collections.abc import Mapping
from typing import Final

from ganger.cli.graph_file import Wishes
from ganger.cli.printing import clean, cut
from ganger.cli.questions import say_question
from ganger.cli.tasks import Wish, split_edge

_LONGEST: Final = 100
"""So much of a question is shown."""


def draw_text(wishes: Wishes, ids: Mapping[str, int]) -> str:
    """A line for each task, after those that it waits for and further in than they; `<-` says which those are."""
    depths = _depths(wishes)
    wide = max((len(str(number)) for number in ids.values()), default=0)
    names = sorted(wishes, key=lambda name: depths[name])
    return "\n".join(_line(name, wishes, depths[name], _number(ids, name, wide)) for name in names)


def _number(ids: Mapping[str, int], name: str, wide: int) -> str:
    return f"{ids[name]:>{wide}}  " if name in ids else ""


def _line(name: str, wishes: Wishes, depth: int, number: str) -> str:
    after = ", ".join(wishes[name].after)
    asks = f"  ({question})" if (question := _ask(wishes[name])) else ""
    return clean(f"{number}{'  ' * depth}{name}{asks}" + (f"  <- {after}" if after else ""))


def _ask(wish: Wish) -> str:
    return cut(say_question(wish.condition), _LONGEST) if wish.condition is not None else ""


def _depths(wishes: Wishes) -> dict[str, int]:
    """How many steps each is from the beginning. Graphs with a cycle are refused before."""
    depths: dict[str, int] = {}
    waiting = dict.fromkeys(wishes)
    while waiting:
        ready = [name for name in waiting if all(parent in depths for parent in _inside(wishes, name))]
        for name in ready:
            depths[name] = max((depths[parent] + 1 for parent in _inside(wishes, name)), default=0)
            del waiting[name]
        if not ready:
            return depths | dict.fromkeys(waiting, 0)
    return depths


def _inside(wishes: Wishes, name: str) -> list[str]:
    """Those of its parents that are in the graph."""
    return [parent for parent, _ in map(split_edge, wishes[name].after) if parent in wishes]


def draw_dot(title: str, wishes: Wishes, ids: Mapping[str, int]) -> str:
    """The graph in the language of Graphviz."""
    lines = [f"digraph {_quote(title)} {{", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  {_quote(name)}{_label(name, wish, ids)};" for name, wish in wishes.items()]
    lines += [_arrow(parent, name) for name, wish in wishes.items() for parent in wish.after]
    return "\n".join([*lines, "}"])


def _label(name: str, wish: Wish, ids: Mapping[str, int]) -> str:
    """Conditions are diamonds, with their question under the name."""
    title = f"{name} ({ids[name]})" if name in ids else name
    if asks := _ask(wish):
        return f" [shape=diamond, label={_quote(title)[:-1]}\\n{_quote(asks)[1:]}]"
    return f" [label={_quote(title)}]" if name in ids else ""


def _arrow(parent: str, name: str) -> str:
    above, on = split_edge(parent)
    return f"  {_quote(above)} -> {_quote(name)}" + ("" if on == "success" else f" [label={_quote(on)}]") + ";"


def _quote(text: str) -> str:
    return json.dumps(clean(text), ensure_ascii=False)
