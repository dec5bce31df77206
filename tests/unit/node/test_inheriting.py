"""What died with a neighbour goes back at once, what may live does not, and nobody else's is touched."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ganger.assembly.folder import FUNCTIONS, Neighbour, NodeFolder, list_neighbours
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.node import Registration
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind
from ganger.engine.store import Claim
from ganger.node.functions.note import Cause, Note
from ganger.node.functions.options import FunctionOptions
from ganger.node.inheriting import Inheriting
from ganger.testing.clock import SeededEntropy
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, enact

KILLED = 9


async def die(hall: Hall, folder: Path, *kinds: str, name: str = "ada") -> tuple[NodeId, Sequence[Claimed]]:
    """A node of that name claims a task of each of these kinds, and is gone without a word."""
    for kind in kinds:
        await hall.submit(kind=kind)
    node = (await hall.engine.nodes.register(Registration(name, "token", lease=60_000))).id
    claimed = await hall.engine.claim(Claim(node, (hall.queue.id,), len(kinds), start=True))
    left = NodeFolder.open(folder / name, SeededEntropy(1))
    left.note_node(node)
    left.close()
    return node, claimed


def leave_note(folder: Path, claimed: Claimed | None, *, buried: bool, name: str = "ada") -> Path:
    notes = FunctionOptions(folder / name / FUNCTIONS).notes
    notes.mkdir(parents=True, exist_ok=True)
    path = notes / f"{len(list(notes.iterdir()))}.note"
    note = Note.make(path, 1)
    if claimed is not None:
        note.begin(0, 1, claimed.id, claimed.fence, 1)
    if buried:
        note.bury(Cause.NODE, KILLED)
    note.close()
    return path


def hire(hall: Hall, folder: Path) -> Inheriting:
    return Inheriting(hall.source(), lambda: list_neighbours(folder), hall.engine.nodes.all, hall.diary)


def test_the_one_that_was_executed_has_crashed_and_the_rest_goes_back(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        _, (first, second, command) = await die(hall, tmp_path, Kind.FUNCTION, Kind.FUNCTION, Kind.COMMAND)
        leave_note(tmp_path, first, buried=True)
        leave_note(tmp_path, None, buried=True)
        heir = hire(hall, tmp_path)
        await heir.start()
        await hall.has_status(Status.QUEUED, first.id, second.id)
        assert [(await hall.get(one.id)).crashes for one in (first, second)] == [1, 0]
        assert await hall.status(command.id) == [Status.RUNNING], "its guardian may keep it"
        await heir.stop()

    enact(scenario)


def test_nothing_goes_back_before_the_last_process_is_proven_dead(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        _, (task,) = await die(hall, tmp_path, Kind.FUNCTION)
        path = leave_note(tmp_path, task, buried=False)
        looks: list[bool] = []

        class Watched(Neighbour):
            def read_last(self) -> frozenset[tuple[TaskId, Fence]] | None:
                last = super().read_last()
                looks.append(last is not None)
                return last

        heir = Inheriting(hall.source(), lambda: [Watched(tmp_path / "ada")], hall.engine.nodes.all)
        await heir.start()
        await until(lambda: len(looks) > 2)
        assert (await hall.status(task.id), any(looks)) == ([Status.RUNNING], False)
        note = Note.open(path)
        note.bury(Cause.NODE, KILLED)
        note.close()
        await hall.has_status(Status.QUEUED, task.id)
        await heir.stop()

    enact(scenario)


def start_holder(folder: Path) -> "subprocess.Popen[bytes]":
    """A process that has the folder, as the node of that name would."""
    program = (
        "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    words = [sys.executable, "-c", program, str(folder / "lock")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    (folder / "pid").write_text(str(process.pid))
    return process


def test_a_process_is_watched_until_it_dies(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        _, (task,) = await die(hall, tmp_path, Kind.FUNCTION)
        leave_note(tmp_path, task, buried=True)
        heir = hire(hall, tmp_path)
        with start_holder(tmp_path / "ada") as process:
            await heir.start()
            await hall.engine.nodes.register(Registration("eve", "token"))
            assert await hall.status(task.id) == [Status.RUNNING]
            process.kill()
        await hall.has_status(Status.QUEUED, task.id)
        assert ("node_inherited" in hall.diary.names(), (await hall.get(task.id)).crashes) == (True, 1)
        await heir.stop()

    enact(scenario)


@pytest.mark.parametrize("how", ["taken", "another", "unknown"])
def test_what_is_not_surely_the_dead_ones_is_left_alone(tmp_path: Path, how: str) -> None:
    async def scenario(hall: Hall) -> None:
        node, (task,) = await die(hall, tmp_path, Kind.FUNCTION)
        folder = tmp_path / "ada"
        if how == "another":
            (tmp_path / "ada").rename(tmp_path / "bob")
            folder = tmp_path / "bob"
        if how == "unknown":
            (folder / "node").write_text("none\n")
        taken = NodeFolder.open(folder, SeededEntropy(1)) if how == "taken" else None
        heir = hire(hall, tmp_path)
        settled = await heir._settle(Neighbour(folder), Neighbour(folder).read_epoch())
        assert (settled, await hall.status(task.id)) == (True, [Status.RUNNING])
        assert (await hall.get(task.id)).holder == node
        if taken is not None:
            taken.close()

    enact(scenario)


def test_a_lock_that_is_held_is_seen_without_disturbing_its_holder(tmp_path: Path) -> None:
    neighbour = Neighbour(tmp_path / "ada")
    assert (neighbour.is_taken(), neighbour.read_node()) == (False, None)
    folder = NodeFolder.open(tmp_path / "ada", SeededEntropy(1))
    assert neighbour.is_taken()
    folder.close()
    assert (neighbour.is_taken(), neighbour.is_taken()) == (False, False)
    assert [one.name for one in list_neighbours(tmp_path)] == ["ada"]
    assert list(list_neighbours(tmp_path / "nowhere")) == []


def test_the_next_process_of_a_name_is_watched_as_well(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        node, (first,) = await die(hall, tmp_path, Kind.FUNCTION)
        leave_note(tmp_path, first, buried=True)
        heir = hire(hall, tmp_path)
        for epoch in (1, 2):
            (tmp_path / "ada" / "epoch").write_text(str(epoch))
            with start_holder(tmp_path / "ada") as process:
                await (heir.start() if epoch == 1 else hall.engine.nodes.register(Registration("eve", "token")))
                await until(lambda: "ada" in heir._watched)
                if epoch == 2:
                    (second,) = await hall.submit(kind=Kind.FUNCTION)
                    await hall.engine.claim(Claim(node, ids=(second,), start=True))
                process.kill()
            await hall.has_status(Status.QUEUED, first.id if epoch == 1 else second)
        await heir.stop()

    enact(scenario)
