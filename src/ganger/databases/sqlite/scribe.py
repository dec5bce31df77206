"""Group commit: everything that waits at a moment is run in one transaction and answered after one fsync.

What can go wrong, and why this is right:

A unit fails. It runs in a savepoint of its own; the savepoint is rolled back, what it asked of the session is taken
back, and only its caller hears of it. A group of one needs no savepoint: its transaction is rolled back instead.

Many small units wait. Where the operation allows it they are run as one, in one savepoint; if that fails each is run by
itself, so that the one at fault is found and the others do not suffer.

A unit is asked for twice, because the owner died between the commit and the answer. A unit that came from another
process leaves a receipt under its identity in the very transaction that does its work. Asked again, it is answered
from the receipt. A unit that wrote nothing leaves none: to run it again is right.

The disk is full. Nothing of the group is stored; the reserve is given up, and the group is run again: units that
need space are refused, the others go through. If even that fails they are tried one by one, so that a large one
does not take the small ones with it.

The disk fails. Nobody is told that anything was done. What became of the group is unknown until the file has been
opened anew, and the error says so.

An answer is given only after COMMIT has returned; replies are encoded before it, so that one that cannot be
encoded is a failure of its unit and not a commit that nobody hears of.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ganger.core.errors import GangerError, StoreBroken, StoreFull
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.errors import breaks_file, copy, ends_group, translate
from ganger.databases.sqlite.file import OwnedFile
from ganger.databases.sqlite.operation import Entry, Mark, Session
from ganger.databases.sqlite.reserve import Reserve
from ganger.databases.sqlite.standing import Stood
from ganger.databases.sqlite.unit import Identity, Outcome, Unit
from ganger.databases.sqlite.watching import Displaced
from ganger.databases.sqlite.widening import run_wide

Answer = tuple[Unit, Outcome]
_START = Mark(0, 0)


class Group(NamedTuple):
    """What one transaction, or the failure of one, led to."""

    answers: list[Answer]
    topics: tuple[str, ...] = ()
    left: Sequence[Unit] = ()
    """Units that were not looked at, because the group had run long enough."""


class GroupLost(Exception):
    """The transaction is gone, and with it every unit in it."""

    def __init__(self, error: GangerError) -> None:
        super().__init__(str(error))
        self.error = error


class Scribe:
    """Writes groups of units. Used on the owner's thread alone."""

    def __init__(self, desk: Desk, file: OwnedFile, reserve: Reserve) -> None:
        self._file = file
        self._catalogue = desk.catalogue
        self._reserve = reserve
        self._standing = desk.standing
        self._clock = desk.clock
        self._limits = desk.limits
        self._probe = desk.probe
        self._receipts: list[tuple[bytes, int, int, bytes, int, int]] = []

    def write(self, units: Sequence[Unit]) -> Group:
        """Run the units in one transaction. Every unit is answered or left; nothing is raised for a unit's sake.

        Displaced: nothing was done, and another process owns the file.
        """
        try:
            self._file.revive()
            return self._commit(units)
        except GroupLost as lost:
            return self._answer_loss(units, lost.error)
        except GangerError as error:
            return _fail(units, error)

    def _commit(self, units: Sequence[Unit]) -> Group:
        session = self._begin()
        stood: list[Stood] = []
        try:
            answers, left = self._run_all(session, units)
            stood += self._standing.take(session.topics())
            outcomes = [self._run_stood(session, each) for each in stood]
            self._probe("scribe.before_commit")
            self._store_receipts()
            session.flush()
            for unit, outcome in answers:
                if unit.near is not None and outcome.error is None:
                    unit.near()
            self._file.connection.execute("COMMIT")
        except Exception as error:
            self._standing.put_back(stood)
            raise self._abandon(session, error) from error
        for each, outcome in zip(stood, outcomes, strict=True):
            each.waiter.safe(outcome)
            answers.append((each.unit, outcome))
        self._probe("scribe.committed_before_reply")
        return Group(answers, session.topics(), left)

    def _run_stood(self, session: Session, stood: Stood) -> Outcome:
        outcome = self._run_among(session, stood.unit)
        stood.waiter.near(outcome)
        return outcome

    def _begin(self) -> Session:
        now = self._clock.now()
        self._reserve.look(now, self._file.owed)
        self._receipts.clear()
        try:
            self._file.connection.execute("BEGIN IMMEDIATE")
            self._file.check_epoch()
        except Displaced:
            self._file.connection.execute("ROLLBACK")
            raise
        except Exception as error:
            raise GroupLost(self._translate(error, "beginning")) from error
        self._probe("scribe.begun")
        return Session(self._file.connection, now, self._clock.wall(), self._file.state)

    def _run_all(self, session: Session, units: Sequence[Unit]) -> tuple[list[Answer], list[Unit]]:
        """The answers, and the units that were not looked at."""
        if len(units) == 1:
            return [(units[0], self._run_alone(session, units[0]))], []
        answers: list[Answer] = []
        waiting = self._put_together(units)
        until = session.now + self._limits.group_ms
        while waiting:
            batch = waiting.popleft()
            if len(batch) > 1:
                answers += self._run_together(session, batch)
            else:
                answers.append((batch[0], self._run_among(session, batch[0])))
            if self._clock.now() >= until:
                break
        return answers, [unit for batch in waiting for unit in batch]

    def _put_together(self, units: Sequence[Unit]) -> deque[list[Unit]]:
        """Units that can be run as one, and the others each by itself."""
        batches: deque[list[Unit]] = deque()
        alike: dict[str, list[Unit]] = {}
        for unit in units:
            together = None if unit.again else self._catalogue.together(unit.operation)
            if together is None or not together.fits(unit.request):
                batches.append([unit])
                # What is run by itself is overtaken by nobody: a settle must not pass its task's last words.
                alike.clear()
            elif (batch := alike.get(unit.operation)) is not None and len(batch) < self._limits.local_units:
                batch.append(unit)
            else:
                alike[unit.operation] = [unit]
                batches.append(alike[unit.operation])
        return batches

    def _run_together(self, session: Session, batch: list[Unit]) -> list[Answer]:
        execute = self._file.connection.execute
        mark, receipts = session.mark(), len(self._receipts)
        execute("SAVEPOINT units")
        try:
            outcomes = self._perform_together(session, batch)
        except Exception as error:
            self._check_alive(error)
            execute("ROLLBACK TO units")
            session.rewind(mark)
            del self._receipts[receipts:]
            outcomes = [self._run_among(session, unit) for unit in batch]
        execute("RELEASE units")
        return list(zip(batch, outcomes, strict=True))

    def _perform_together(self, session: Session, batch: list[Unit]) -> list[Outcome]:
        entry = self._catalogue.find(batch[0].operation)
        together = entry.operation.together
        assert together is not None
        self._refuse_if_full(entry)
        changes, asked = session.connection.total_changes(), session.flushes_asked
        values = together.run(session, [unit.request for unit in batch])
        self._probe("scribe.unit_run")
        self._check_open(session, batch[0])
        wrote = session.connection.total_changes() != changes or session.flushes_asked != asked
        replies = zip(batch, values, strict=True)
        return [self._answer(session, entry, *pair) if wrote else self._answer_idle(*pair) for pair in replies]

    def _check_open(self, session: Session, unit: Unit) -> None:
        if not session.connection.in_transaction:
            raise GroupLost(StoreBroken(f"operation {unit.operation!r} ended the transaction it ran in"))

    def _answer(self, session: Session, entry: Entry, unit: Unit, value: Any) -> Outcome:
        """The outcome of a unit that wrote something; one from another process leaves a receipt."""
        if unit.identity is None:
            return Outcome(value)
        encoded = self._catalogue.encode(value)
        self._keep_receipt(session, unit.identity, _receipt(entry, value, encoded))
        return Outcome(value, encoded=encoded)

    def _run_alone(self, session: Session, unit: Unit) -> Outcome:
        execute = self._file.connection.execute
        try:
            return self._perform(session, unit)
        except Exception as error:
            self._check_alive(error)
            execute("ROLLBACK")
            session.rewind(_START)
            execute("BEGIN IMMEDIATE")
            return Outcome(error=self._translate(error, unit.operation))

    def _run_among(self, session: Session, unit: Unit) -> Outcome:
        execute = self._file.connection.execute
        mark = session.mark()
        execute("SAVEPOINT unit")
        try:
            outcome = self._perform(session, unit)
        except Exception as error:
            self._check_alive(error)
            execute("ROLLBACK TO unit")
            session.rewind(mark)
            outcome = Outcome(error=self._translate(error, unit.operation))
        execute("RELEASE unit")
        return outcome

    def _check_alive(self, error: Exception) -> None:
        """Go on to raise the error if the whole transaction is gone, or the disk is."""
        if ends_group(error) or not self._file.connection.in_transaction:
            raise error

    def _perform(self, session: Session, unit: Unit) -> Outcome:
        entry = self._catalogue.find(unit.operation)
        if unit.again and (receipt := self._find_receipt(unit)) is not None:
            return self._replay(session, entry, receipt)
        self._refuse_if_full(entry)
        changes, asked = session.connection.total_changes(), session.flushes_asked
        value = entry.operation.run(session, unit.request)
        self._probe("scribe.unit_run")
        self._check_open(session, unit)
        if session.connection.total_changes() != changes or session.flushes_asked != asked:
            return self._answer(session, entry, unit, value)
        return self._answer_idle(unit, value)

    def _answer_idle(self, unit: Unit, value: Any) -> Outcome:
        """The outcome of a unit that wrote nothing: to run it again is as good as a receipt."""
        return Outcome(value, encoded=b"" if unit.identity is None else self._catalogue.encode(value))

    def _refuse_if_full(self, entry: Entry) -> None:
        if self._reserve.full and entry.operation.needs_space:
            raise StoreFull("the disk is full: new work is refused, results are still recorded; free some space")

    def _find_receipt(self, unit: Unit) -> bytes | None:
        # The first copy of the unit may be in this very group.
        self._store_receipts()
        found = self._file.connection.execute(self._file.queries["find_unit"], unit.identity).fetchone()
        return None if found is None else bytes(found[0])

    def _replay(self, session: Session, entry: Entry, receipt: bytes) -> Outcome:
        if entry.operation.replay is None:
            return Outcome(entry.replies.decode(receipt), encoded=receipt)
        value = entry.operation.replay(session, receipt)
        return Outcome(value, encoded=self._catalogue.encode(value))

    def _keep_receipt(self, session: Session, identity: Identity, receipt: bytes) -> None:
        self._receipts.append((*identity, receipt, session.now, session.wall))

    def _store_receipts(self) -> None:
        if self._receipts:
            run_wide(self._file.connection, self._file.queries["remember_unit"], self._receipts)
            self._receipts.clear()

    def _abandon(self, session: Session, error: Exception) -> GroupLost:
        """Roll the transaction back, and make the caches true again."""
        translated = self._translate(error, "committing")
        try:
            if self._file.connection.in_transaction:
                self._file.connection.execute("ROLLBACK")
            session.rewind(_START)
        except Exception as second:
            translated = StoreBroken(f"{translated}; and rolling back failed: {second}")
        return GroupLost(translated)

    def _translate(self, error: Exception, doing: str) -> GangerError:
        if isinstance(error, GroupLost):
            return error.error
        translated = translate(error, doing, self._file.connection)
        if translated is not error:
            translated.__cause__ = error
        return translated

    def _answer_loss(self, units: Sequence[Unit], error: GangerError) -> Group:
        if isinstance(error, StoreFull):
            return self._use_reserve(units, error)
        if breaks_file(error):
            self._file.poison()
        return _fail(units, error)

    def _use_reserve(self, units: Sequence[Unit], error: StoreFull) -> Group:
        released = self._reserve.release()
        self._file.make_room()
        if released:
            return self.write(units)
        if len(units) == 1:
            return _fail(units, error)
        return _merge([self.write([unit]) for unit in units])


def _receipt(entry: Entry, value: Any, encoded: bytes) -> bytes:
    return encoded if entry.operation.receipt is None else entry.operation.receipt(value)


def _fail(units: Iterable[Unit], error: GangerError) -> Group:
    return Group([(unit, Outcome(error=copy(error))) for unit in units])


def _merge(groups: Sequence[Group]) -> Group:
    return Group(
        [answer for group in groups for answer in group.answers],
        tuple(dict.fromkeys(topic for group in groups for topic in group.topics)),
        [unit for group in groups for unit in group.left],
    )
