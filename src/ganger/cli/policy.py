"""The policy of a queue as options of a command: what is not given stays as it is."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from ganger.core.queue import Policy

Command = TypeVar("Command", bound=Callable[..., Any])
NONE: Final = "none"


def read_limit(text: str) -> int | str:
    """A number, or `none` for no limit."""
    if text == NONE:
        return NONE
    if not (text.isascii() and text.isdecimal()):
        raise click.BadParameter(f"{text!r} is neither a number nor none")
    return int(text)


_OPTIONS: Final = (
    click.option("--sort", type=click.Choice(["fifo", "lifo", "default"]), help="The order among equal priorities."),
    click.option("--max-active", type=read_limit, metavar="N|none", help="So many at once over all nodes."),
    click.option("--max-per-node", type=read_limit, metavar="N|none", help="So many at once on each node."),
    click.option("--max-per-key", type=read_limit, metavar="N|none", help="So many at once of each concurrency key."),
    click.option("--on-lost", type=click.Choice(["retry", "orphan"]), help="What becomes of a task whose node died."),
    click.option("--retries", type=click.IntRange(0), metavar="N", help="Try failed tasks so many times again."),
    click.option("--becomes", metavar="QUEUE|none", help="Each result becomes a task of this queue."),
    click.option("--batch-size", type=read_limit, metavar="N|none", help="Number the tasks in batches of so many."),
    click.option("--plugin", metavar="NAME|none", help="The plugin that runs its tasks."),
    click.option("--pin", metavar="NODE,...|none", help="Only these nodes may take from it."),
    click.option("--ignore", metavar="NODE,...|none", help="These nodes may not take from it."),
    click.option("--webhooks", metavar="URL,...|none", help="These addresses are told of each task that has ended."),
)
_NAMES: Final = frozenset({"pin", "ignore", "webhooks"})


def take_policy(command: Command) -> Command:
    """Give a command an option for each field of a policy."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def apply(policy: "Policy", given: dict[str, Any], becomes: int | None) -> "Policy":
    """The policy with what was given on the command line; `becomes` is the id of the queue that was named."""
    from ganger.core.retry import Retry, from_text, to_text

    changes = {name: _value(name, value) for name, value in given.items() if value is not None}
    retries = changes.pop("retries", None)
    if retries is not None:
        before: Retry = from_text(policy.retry)
        changes["retry"] = to_text(before._replace(max_attempts=retries + 1))
    if "becomes" in changes:
        changes["becomes"] = becomes
    return policy._replace(**changes)


def _value(name: str, value: Any) -> Any:
    if name in _NAMES:
        return () if value == NONE else tuple(value.split(","))
    return None if value == NONE else value
