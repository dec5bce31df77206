"""What of the output of a task could not be kept, for those who show it."""

from typing import TYPE_CHECKING, Final

from ganger.wire.cuts import KEY, Cut, read_cut

if TYPE_CHECKING:
    from ganger.core.ids import Fence
    from ganger.engine.engine import Engine
    from ganger.engine.store import Look

_MOST: Final = 65_536


async def find_cut(engine: "Engine", look: "Look", attempt: "Fence | None" = None) -> Cut:
    """Of this attempt, or of the newest."""
    if KEY not in look.keys:
        return Cut({})
    cut = read_cut((await engine.read_data(look.task.id, KEY, 0, _MOST)).body)
    newest = max((each.fence for each in look.attempts), default=look.task.fence)
    return cut if cut.concerns(newest if attempt is None else attempt) else Cut({})
