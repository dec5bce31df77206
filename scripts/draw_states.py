"""Writes docs/reference/state.md out of the table in core/state.py: `python -m scripts.draw_states`."""

from pathlib import Path
from typing import Final

from ganger.core.state import BORN, RULES, Rule, Status, is_final

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "state.md"

_HEAD: Final = """# The life of a task

This page is drawn from `core/state.py` by `make docs`; a test holds it to the table. Statuses are integers and are
stored as they are. A status above 2 is a failure with that code. Any other code was set by a stranger: no rule starts
there, so such a task is never claimed and never touched.
"""

_MEANINGS: Final = {
    Status.DELAYED: "due later, or backing off after a failure",
    Status.HELD: "set aside until somebody kicks it: buried, a dead letter, or quarantined after crashes",
    Status.ORPHANED: "its lease was lost, and its queue does not run lost tasks again",
    Status.CANCELLED: "ended before it ran",
    Status.BLOCKED: "waits for parents, for members or for a condition",
    Status.TERMINATED: "killed while it was leased",
    Status.QUEUED: "ready to be claimed",
    Status.CLAIMED: "leased to a holder that has not said that it runs",
    Status.RUNNING: "leased to a holder that runs it",
    Status.SUCCEEDED: "ended well",
    Status.FAILED: "ended badly: 2, or any larger code",
}

_WHEN: Final = {
    "unblock": "the last edge that it waited for holds",
    "unblock_later": "the same, and it is due later",
    "promote": "it is due",
    "claim": "a holder takes it",
    "take": "a holder takes it and runs it at once",
    "start": "the holder says that it runs",
    "succeed": "the attempt ended well",
    "fail": "the attempt failed, and its policy has no further one",
    "terminate": "the holder has killed it, as it was asked to",
    "retry": "the attempt failed, and another follows at once",
    "retry_later": "the attempt failed, and another follows after a delay",
    "release": "the holder gives it back",
    "release_later": "the holder gives it back for later",
    "bury": "the holder sets it aside",
    "lose": "the lease ended, and it runs again",
    "lose_to_orphan": "the lease ended, and its queue does not run lost tasks again",
    "lose_to_hold": "the lease ended, and it has crashed too often",
    "lose_killed": "the lease ended after somebody had asked to kill it",
    "hold": "somebody sets a waiting task aside",
    "block": "a waiting task was given one more parent to wait for",
    "kick": "somebody sends it back into the queue",
    "kick_to_block": "the same, and it still has parents to wait for",
    "cancel": "somebody calls it off, or an edge can never hold",
    "skip": "its branch was not chosen",
    "conclude": "a group or a condition ended well",
    "conclude_failed": "a group or a condition ended badly",
}


def draw() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_statuses(), "", *_diagram(), "", *_rules(), ""))


def _statuses() -> list[str]:
    rows = [f"| `{_name(status)}` | {int(status)} | {_final(status)} | {_MEANINGS[status]} |" for status in Status]
    return ["## Statuses", "", "| status | code | final | meaning |", "|---|---|---|---|", *rows]


def _final(status: Status) -> str:
    return "yes" if is_final(status) else ""


def _name(status: Status) -> str:
    return status.name.lower()


def _diagram() -> list[str]:
    born = [f"    [*] --> {_name(status)}: submit" for status in sorted(BORN)]
    ends = [f"    {_name(status)} --> [*]" for status in Status if is_final(status)]
    return ["## Diagram", "", "```mermaid", "stateDiagram-v2", *born, *_arrows(), *ends, "```"]


def _arrows() -> list[str]:
    """One arrow for each pair of statuses, with every rule that leads along it."""
    labels: dict[tuple[Status, Status], list[str]] = {}
    for rule in RULES.values():
        for source in sorted(rule.sources):
            labels.setdefault((source, rule.target), []).append(rule.name)
    return [f"    {_name(a)} --> {_name(b)}: {', '.join(names)}" for (a, b), names in labels.items()]


def _rules() -> list[str]:
    head = "| rule | when | from | to | told as | by the holder | counts |"
    return ["## Rules", "", head, "|---|---|---|---|---|---|---|", *map(_row, RULES.values())]


def _row(rule: Rule) -> str:
    sources = ", ".join(_name(source) for source in sorted(rule.sources))
    holder = "yes" if rule.by_holder else ""
    told = (_name(rule.target), f"`{rule.fact}`", holder, ", ".join(rule.adds))
    return f"| {' | '.join((f'`{rule.name}`', _WHEN[rule.name], sources, *told))} |"


if __name__ == "__main__":
    PAGE.write_text(draw())
