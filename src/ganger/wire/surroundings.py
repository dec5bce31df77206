"""What a command can be given at all, whoever submits it: what is refused here no node could run."""

from collections.abc import Sequence
from typing import Final

from ganger.core.errors import BadInput, BadNumber
from ganger.wire.specs import CommandSpec, Limits, ShellSpec

LARGEST: Final = 1 << 62


def check_surroundings(spec: CommandSpec | ShellSpec) -> None:
    """BadInput, BadNumber: no command can have these words, this environment, this folder or these limits."""
    _check_words(spec, spec.argv if isinstance(spec, CommandSpec) else [spec.script])
    check_limits(spec.limits)
    if not 0 <= spec.grace <= LARGEST:
        raise BadNumber(f"grace is {spec.grace}; give milliseconds from 0 to {LARGEST}", field="grace")


def _check_words(spec: CommandSpec | ShellSpec, words: Sequence[str]) -> None:
    if "\0" in "".join([*words, spec.cwd or "", *spec.env, *spec.env.values()]):
        raise BadInput("a command, its environment and its working directory cannot hold a NUL: take it out")
    if any(not name or "=" in name for name in spec.env):
        raise BadInput("the name of an environment variable is not empty and holds no =", field="env")


def check_limits(limits: Limits) -> None:
    for name in ("cpu", "memory", "files", "output"):
        bound = getattr(limits, name)
        if bound is not None and not 0 <= bound <= LARGEST:
            raise BadNumber(f"the limit {name} is {bound}; give 0 to {LARGEST}, or none", field=name)
