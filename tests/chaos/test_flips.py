"""One bit flips in the database, its log, a bag or large data: the doctor names the file, or all is as it was.

The number of flips is the environment's GANGER_TEST_FLIPS; 1,000 are the figure.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner

from ganger.assembly.backup import beside, copy_store
from ganger.cli.doctor import SICK_EXIT
from ganger.cli.main import main
from ganger.core.errors import GangerError, StoreBroken
from ganger.core.ids import TaskId
from ganger.databases.sqlite import Rank
from ganger.databases.sqlite.bag import read_bag
from ganger.databases.sqlite.logfile import read_log
from ganger.databases.sqlite.place import Place, find_bags
from ganger.engine.engine import Engine
from ganger.engine.store import Query
from tests.chaos.flipped import open_all
from tests.folders import folder_in_memory

FLIPS: Final = int(os.environ.get("GANGER_TEST_FLIPS", "40"))
LETTERS: Final = 200
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120 + FLIPS)]

Content = Counter[tuple[object, ...]]


class Left(NamedTuple):
    """What was left behind, and what is in it."""

    folder: Path
    content: Content


@contextmanager
def process(*words: object) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.flipped", *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def hear(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    assert child.stdout.readline().strip() == word


def leave_behind(database: Path, letters: int = LETTERS) -> None:
    """A store whose owner and whose client were killed, the owner before it had read the last letters."""
    with process("own", database) as owner:
        hear(owner, "ready")
        with process("post", database, letters) as client:
            hear(client, "ready")
            owner.send_signal(signal.SIGSTOP)
            assert client.stdin is not None
            client.stdin.write("go on\n")
            client.stdin.flush()
            hear(client, "posted")
            owner.kill()
            owner.wait()


async def read_all(engine: Engine) -> Content:
    found: Content = Counter()
    query: Query | None = Query(most=500)
    while query is not None:
        page = await engine.find(query)
        for task in page.tasks:
            spec = (await engine.read_data(task.id, "spec", 0, 1 << 20)).body
            found[task.description, spec, task.kind, task.priority, task.status] += 1
        query = None if page.next is None else query._replace(after=page.next)
    film = await engine.read_data(TaskId(1), "film", 0, 1 << 20)
    found["film", film.body] += 1
    return found


def look_into(database: Path) -> Content | GangerError:
    async def look() -> Content:
        store, engine = await open_all(database, Rank.SERVER)
        try:
            return await read_all(engine)
        finally:
            await engine.close()
            await store.close()

    try:
        return asyncio.run(look())
    except GangerError as error:
        return error


@pytest.fixture(scope="module")
def left() -> Iterator[Left]:
    with folder_in_memory() as folder:
        (folder / "left").mkdir()
        leave_behind(folder / "left" / "tasks.db")
        copy = copy_folder(folder / "left", folder / "looked")
        content = look_into(copy)
        assert isinstance(content, Counter)
        yield Left(folder / "left", content)


def copy_folder(left: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(left, to, ignore=shutil.ignore_patterns("*-shm", "*-socket", "*-owner", "*-reserve"))
    return to / "tasks.db"


def targets(database: Path) -> list[tuple[Path, int]]:
    """The files, and how many bytes of each hold something."""
    place = Place.of(database)
    (bag,) = find_bags(place.database)
    blobs = [path for path in database.with_name("tasks.db-blobs").rglob("*") if path.is_file() and path.stat().st_size]
    return [
        (place.database, place.database.stat().st_size),
        (place.log, read_log(place.log).end),
        (bag, len(read_bag(bag, place.database).whole)),
        *((path, path.stat().st_size) for path in blobs if path.stat().st_size > 1_000),
    ]


def test_everything_acknowledged_is_there_before_a_bit_flips(left: Left) -> None:
    kinds = Counter(str(row[0]).split()[0] for row in left.content.elements())
    assert kinds == {"paged": 150, "logged": 40, "asked": 10, "posted": LETTERS, "film": 1}
    assert len(targets(left.folder / "tasks.db")) == 4


def test_a_flipped_bit_is_named_by_the_doctor_or_changes_nothing(left: Left) -> None:
    rng = random.Random(18)
    found: Counter[tuple[str, str]] = Counter()
    for number in range(FLIPS):
        database = copy_folder(left.folder, left.folder.with_name("flipped"))
        path, size = targets(database)[number % 4]
        bit = rng.randrange(8 * size)
        flip(path, bit)
        named = [finding for finding in examine(database) if not finding["well"]]
        after = look_into(database)
        where = (path.name, bit, named, after if isinstance(after, GangerError) else None)
        if named:
            assert any(path.name in str(finding["seen"]) for finding in named), where
            assert isinstance(after, GangerError) or after <= left.content, where
        else:
            assert after == left.content, where
        found[path.name[:14], "named" if named else "harmless"] += 1
    print(dict(found))
    assert {name for name, what in found if what == "named"} == {name for name, _ in found}


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def examine(database: Path) -> list[dict[str, Any]]:
    """What `ganger doctor` says."""
    result = CliRunner().invoke(main, ["doctor", "--json"], env={"GANGER_STORE": f"sqlite:{database}"})
    findings = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == (0 if all(finding["well"] for finding in findings) else SICK_EXIT), result
    return findings


def test_a_backup_has_the_letters_that_nobody_has_run_yet(left: Left) -> None:
    database = copy_folder(left.folder, left.folder.with_name("copied"))
    copy = database.with_name("copy.db")

    copied = asyncio.run(copy_store(beside(database), beside(copy)))

    assert not copied.damaged
    assert len(find_bags(copy)) == 1
    assert look_into(copy) == left.content
    assert all(finding["well"] for finding in examine(copy))


def test_a_backup_that_fails_leaves_no_letters_behind(left: Left) -> None:
    database = copy_folder(left.folder, left.folder.with_name("uncopied"))
    for place in range(4_196, database.stat().st_size, 4_096):
        flip(database, 8 * place)
    copy = database.with_name("copy.db")

    with pytest.raises(StoreBroken):
        asyncio.run(copy_store(beside(database), beside(copy)))

    assert not find_bags(copy)
