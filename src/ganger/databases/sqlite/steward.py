"""The thread that serves a file in this process: as its owner, or over a link to the owner.

The roles follow each other on this one thread, so nothing is ever in two hands: what this process has sent and not
heard of, and what it has not sent yet, goes from one role to the next. Who holds the lock owns. Who does not connects;
an owner that is only just starting is waited for.
"""

import threading
from collections.abc import Callable
from typing import Final

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, StoreBroken, StoreClosed, StoreUnavailable
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.errors import copy
from ganger.databases.sqlite.file import OwnedFile
from ganger.databases.sqlite.handshake import Connected, reach_owner
from ganger.databases.sqlite.keeping import leave_foreign_log
from ganger.databases.sqlite.link import Link
from ganger.databases.sqlite.nameplate import Nameplate, read_nameplate
from ganger.databases.sqlite.outstanding import Outstanding
from ganger.databases.sqlite.owner import Owner
from ganger.databases.sqlite.place import refuse_place
from ganger.databases.sqlite.reserve import Reserve
from ganger.databases.sqlite.scribe import Scribe
from ganger.databases.sqlite.seat import Seat, take_seat
from ganger.databases.sqlite.unit import Outcome, Post
from ganger.databases.sqlite.watching import Files, Watch

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05


class Steward:
    """Plays the roles until the inbox is closed and everything is answered.

    `entered` is called once: without an error when the first role begins, or with the error that kept it from it.
    `ended` is called once, last. `changing` is called before each role: the file may be another than before.
    """

    def __init__(
        self,
        desk: Desk,
        entered: Callable[[GangerError | None], None],
        ended: Callable[[], None],
        changing: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._changing = changing
        self._entered = entered
        self._ended = ended
        self._outstanding = Outstanding(desk.client, desk.limits.slots)
        self._has_entered = False
        self._seat: Seat | None = None
        self._role: Owner | Link | None = None

    @property
    def owns(self) -> bool:
        return isinstance(role := self._role, Owner) and not role.leaves

    def run(self) -> None:
        """What the thread does."""
        error: GangerError = StoreBroken("the thread that serves the file died")
        try:
            refuse_place(self._desk.place, self._desk.host)
            self._play_roles()
            error = _closed()
        except GangerError as refusal:
            error = refusal
        finally:
            self._end(error)

    def _play_roles(self) -> None:
        while not self._is_done():
            try:
                self._play()
            except GangerError as error:
                if not self._has_entered:
                    raise
                self._answer_all(error)
                self._desk.inbox.wait(self._desk.limits.retry_ms / 1000)

    def _is_done(self) -> bool:
        inbox = self._desk.inbox
        return inbox.closed and not len(inbox) and not len(self._outstanding)

    def _play(self) -> None:
        self._changing()
        entered = self._seat if self._seat is not None else self._enter()
        self._seat = None
        if isinstance(entered, Seat):
            self._own(entered)
        else:
            self._link(entered)

    def _enter(self) -> Connected | Seat:
        deadline = Moment(self._desk.clock.now() + self._desk.limits.connect_ms)
        pause = _FIRST_PAUSE
        while self._desk.clock.now() < deadline and not self._is_done():
            found = take_seat(self._desk.place) or reach_owner(self._desk, deadline)
            if found is not None:
                return found
            threading.Event().wait(pause * (0.5 + self._desk.entropy.uniform()))
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise _closed() if self._is_done() else self._unreachable()

    def _unreachable(self) -> StoreUnavailable:
        plate = read_nameplate(self._desk.place)
        owner = "another process" if plate is None else f"process {plate.pid}"
        return StoreUnavailable(
            f"{owner} owns {self._desk.place.database} and does not answer: is it stopped, or still starting?",
            pid=None if plate is None else plate.pid,
        )

    def _own(self, seat: Seat) -> None:
        self._seat = seat
        self._desk.probe("owner.locked")
        try:
            owner = self._sit_down(seat)
        except BaseException:
            seat.leave()
            self._seat = None
            raise
        # While nobody owned the file this process may have missed a wake-up.
        self._desk.listeners.tell(self._desk.listeners.topics())
        try:
            owner.serve(self._outstanding.drain(), lambda: self._begin(owner))
        finally:
            self._role, self._seat = None, None

    def _sit_down(self, seat: Seat) -> Owner:
        desk = self._desk
        before = read_nameplate(desk.place)
        suspect = before is not None and not before.sound
        seat.listen()
        desk.probe("owner.listening")
        # Until it was opened well: a sync that fails meanwhile is the next one's to know.
        watch = Watch(desk.place, seat)
        if before is not None:
            watch.files = Files(*before.files)
            leave_foreign_log(desk.place, watch.files, desk.clock, desk.telemetry)
        self._sign(seat, watch, sound=False)
        reserve = Reserve(desk.place, desk.host, desk.limits, desk.probe)
        file = OwnedFile(
            desk, reserve, watch, lambda sound: self._sign(seat, watch, sound=sound), creates=not self._has_entered
        )
        try:
            file.open(suspect=suspect)
        except BaseException:
            file.close(last=False)
            watch.notice.close()
            raise
        self._sign(seat, watch, sound=True)
        return Owner(desk, seat, file, Scribe(desk, file, reserve), watch)

    def _sign(self, seat: Seat, watch: Watch, *, sound: bool) -> None:
        charter = self._desk.charter
        wall = self._desk.clock.wall()
        seat.sign(Nameplate(self._desk.pid, charter.protocol, charter.minimum, wall, sound, watch.files))

    def _link(self, connected: Connected) -> None:
        link = Link(self._desk, connected.stream, self._outstanding, connected.owner, connected.frames)
        self._begin(link)
        try:
            self._seat = link.serve()
        finally:
            self._role = None

    def _begin(self, role: Owner | Link) -> None:
        self._role = role
        if not self._has_entered:
            self._has_entered = True
            self._entered(None)

    def _answer_all(self, error: GangerError) -> None:
        post = Post()
        inbox = self._desk.inbox
        for unit in [*self._outstanding.drain(), *inbox.take(len(inbox))]:
            unit.waiter.tell(Outcome(error=copy(error)), post)
        post.deliver()

    def _end(self, error: GangerError) -> None:
        self._desk.inbox.close()
        self._answer_all(error)
        if self._seat is not None:
            self._seat.leave()
        self._desk.inbox.dispose()
        if not self._has_entered:
            self._entered(error)
        self._ended()

    def abandon(self) -> None:
        """In a forked child: close the copies of what belongs to the parent."""
        if self._role is not None:
            self._role.abandon()
        if self._seat is not None:
            self._seat.close()
        self._desk.inbox.dispose()


def _closed() -> StoreClosed:
    return StoreClosed("the file was closed by this process: open it again")
