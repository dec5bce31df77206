"""What `ganger top` shows at a moment, as a value, and what a key makes of it. It reads nothing and draws nothing."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ganger.cli import keys
from ganger.core.ids import TaskId
from ganger.core.state import Status

CHOICES: Final = {
    "running": (Status.RUNNING, Status.CLAIMED),
    "waiting": (Status.QUEUED, Status.DELAYED, Status.BLOCKED),
    "held": (Status.HELD,),
    "ended": (Status.SUCCEEDED, Status.FAILED, Status.TERMINATED, Status.CANCELLED, Status.ORPHANED),
}
"""Which tasks may be listed, by the word for them."""

SORTS: Final = {"newest": "newest first", "longest": "longest first", "queue": "by queue", "node": "by node"}
ACTS: Final = {"K": "kill", "C": "cancel", "H": "hold", "G": "kick", "R": "retry"}
HELP: Final = "q end  ↑↓ choose  ⏎ look  ⇥ list  s sort  r turn  K kill C cancel H hold G kick R retry"
HELP_OPEN: Final = "q end  esc back  ↑↓ scroll  K kill  C cancel  H hold  G kick  R retry"


class Board(NamedTuple):
    """`chosen` is the task that keys are about, `opened` the one that is looked into, from line `scrolled` on.

    `asked` is an act that waits for a yes, `said` what the last one came to. `act` is to be done now, and `over` ends
    it all.
    """

    choice: str = "running"
    sort: str = "newest"
    reverse: bool = False
    chosen: TaskId | None = None
    opened: TaskId | None = None
    scrolled: int = 0
    asked: str | None = None
    said: str = ""
    act: str | None = None
    over: bool = False

    @property
    def about(self) -> TaskId | None:
        return self.opened if self.opened is not None else self.chosen


def press(board: Board, key: str, listed: Sequence[TaskId]) -> Board:
    """The board after a key, with these tasks in the list."""
    if key == keys.END or (key == "q" and board.asked is None):
        return board._replace(over=True)
    if board.asked is not None:
        return _answer(board, key)
    if key in ACTS:
        return _ask(board._replace(said=""), ACTS[key])
    if board.opened is not None:
        return _read_on(board._replace(said=""), key)
    return _choose(board._replace(said=""), key, listed)


def _answer(board: Board, key: str) -> Board:
    if key in {"y", "Y"}:
        return board._replace(act=board.asked, asked=None)
    return board._replace(asked=None, said="nothing was done")


def _ask(board: Board, act: str) -> Board:
    if board.about is None:
        return board._replace(said=f"choose the task to {act} first, with ↑ and ↓")
    return board._replace(asked=act)


def _read_on(board: Board, key: str) -> Board:
    if key in {keys.ESCAPE, keys.ENTER, "h"}:
        return board._replace(opened=None, scrolled=0)
    step = {keys.UP: -1, "k": -1, keys.DOWN: 1, "j": 1}.get(key, 0)
    return board._replace(scrolled=max(0, board.scrolled + step))


def _choose(board: Board, key: str, listed: Sequence[TaskId]) -> Board:
    if key == keys.TAB:
        return board._replace(choice=_next(tuple(CHOICES), board.choice), chosen=None)
    if key == "s":
        return board._replace(sort=_next(tuple(SORTS), board.sort))
    if key == "r":
        return board._replace(reverse=not board.reverse)
    if key == keys.ENTER and board.chosen is not None:
        return board._replace(opened=board.chosen, scrolled=0)
    if key in {keys.UP, keys.DOWN, "j", "k"} and listed:
        return board._replace(chosen=_move(board.chosen, listed, 1 if key in {keys.DOWN, "j"} else -1))
    return board


def _move(chosen: TaskId | None, listed: Sequence[TaskId], step: int) -> TaskId:
    """The next task in the list; one that has left it is followed by the first."""
    if chosen not in listed:
        return listed[0] if step > 0 else listed[-1]
    return listed[min(len(listed) - 1, max(0, listed.index(chosen) + step))]


def _next(words: Sequence[str], word: str) -> str:
    return words[(words.index(word) + 1) % len(words)]
