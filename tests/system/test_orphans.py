"""Figure 19: a node and its guardian are killed together; what they ran is dead before another node of it begins.

Each attempt writes down when it was alive: its own process does, and one that it has daemonised. The environment's
GANGER_TEST_ORPHANS says how many nodes are killed; 200 are the figure.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from ganger.assembly.folder import locate_nodes
from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.tree import find_marked
from tests.system.harness import Crew, Member, crew
from tests.system.harness_node import Desk, desk, serve_node
from tests.unit.node.guarded import until

ORPHANS: Final = int(os.environ.get("GANGER_TEST_ORPHANS", "6"))
LEASE: Final = 5_000
NAMES: Final = ("ada", "bob", "eve")
SCRIPT: Final = """
live() {{ while :; do date +%s%N >> {place}.$GANGER_FENCE.$1; sleep 0.02; done; }}
if ls {place}.* > /dev/null 2>&1; then
  date +%s%N > {place}.heir; sleep 0.3; exit 0
fi
trap '' TERM
(trap '' TERM; setsid -f sh -c "$(cat <<END
while :; do date +%s%N >> {place}.$GANGER_FENCE.far; sleep 0.02; done
END
)")
live near
"""
"""The first attempt lives for ever, twice. The second one lives for a while, beside the first if that still does."""

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(240 + 10 * ORPHANS)]


class House:
    """Nodes of one machine, by their names."""

    def __init__(self, hired: Crew, made: Desk) -> None:
        self._hired, self._desk = hired, made
        self._nodes = locate_nodes(made.folder / "ganger.db")
        self.members: dict[str, Member] = {}

    def open(self, name: str, lease: int = LEASE) -> None:
        options = {"name": name, "kinds": ("shell",), "lease": lease, "slots": 1}
        self.members[name] = self._hired.start(serve_node, self._desk.folder, options)
        self.members[name].hear()

    async def find_holder(self, task: TaskId) -> str:
        found = await self._desk.until_task(task, lambda now: now.status == Status.RUNNING)
        nodes = {node.id: node.name for node in await self._desk.engine.nodes.all()}
        assert found.holder is not None
        return nodes[found.holder]

    def run_folder(self, name: str) -> RunFolder:
        return RunFolder(str(self._nodes / name / "commands"))

    def find_guardian(self, name: str) -> int:
        found = self.run_folder(name).find_guardian()
        assert found is not None
        return found

    def find_orphans(self, name: str) -> list[int]:
        return find_marked(self.run_folder(name).read_mark())

    def kill_with_guardian(self, name: str) -> None:
        guardian = self.find_guardian(name)
        os.kill(self.members[name].pid, signal.SIGKILL)
        os.kill(guardian, signal.SIGKILL)
        self.members.pop(name).outlive()

    def kill(self, name: str) -> None:
        self.members.pop(name).kill()


def read_times(folder: Path, pattern: str) -> list[int]:
    return [int(line) for path in folder.glob(pattern) for line in path.read_text().split()]


def measure_pause(place: Path) -> int:
    orphan, heir = read_times(place.parent, f"{place.name}.*.*"), read_times(place.parent, f"{place.name}.heir")
    return min(heir) - max(orphan)


async def kill_two(house: House, made: Desk, number: int) -> list[int]:
    """Two nodes run a task each and are killed; the third runs both: for how long, each time, nobody ran it (ns)."""
    places = [made.folder / f"run{number}-{index}" for index in range(2)]
    tasks = await made.submit(*(made.shell(SCRIPT.format(place=place)) for place in places))
    for place in places:
        await until(lambda place=place: len(list(made.folder.glob(f"{place.name}.*.*"))) == 2)  # type: ignore[misc]
    holders = [await house.find_holder(task) for task in tasks]
    for name in holders:
        house.kill_with_guardian(name)
    assert await made.wait(*tasks) == [Status.SUCCEEDED] * 2
    for name in holders:
        house.open(name)
    return [measure_pause(place) for place in places]


def test_no_command_of_a_node_killed_with_its_guardian_runs_beside_its_heir(tmp_path: Path) -> None:
    async def check() -> list[int]:
        pauses: list[int] = []
        async with desk(tmp_path) as made:
            with crew() as hired:
                house = House(hired, made)
                for name in NAMES:
                    house.open(name)
                for number in range(-(-ORPHANS // 2)):
                    pauses += await kill_two(house, made, number)
                for member in house.members.values():
                    assert member.ask("stop") == ("ended",)
        return pauses

    pauses = asyncio.run(check())

    beside = [pause for pause in pauses if pause <= 0]
    print(
        f"{len(pauses)} nodes killed with their guardians: {len(beside)} ran beside an heir, {min(pauses)} ns at least"
    )
    assert beside == []


async def leave_one(house: House, made: Desk) -> Path:
    """A node of the name ada runs a command under a long lease: where that wrote down that it lives."""
    house.open("ada", lease=600_000)
    place = made.folder / "left"
    await made.submit(made.shell(SCRIPT.format(place=place)))
    await until(lambda: len(list(made.folder.glob("left.*.*"))) == 2)
    return place


def test_a_node_that_comes_later_ends_what_was_left_before_it_takes_work(tmp_path: Path) -> None:
    async def check() -> None:
        async with desk(tmp_path) as made:
            with crew() as hired:
                house = House(hired, made)
                await leave_one(house, made)
                house.kill_with_guardian("ada")
                assert house.find_orphans("ada")
                house.open("bob")
                assert house.find_orphans("ada") == []

    asyncio.run(check())


def test_what_a_living_guardian_keeps_is_left_to_it_and_ended_when_it_dies(tmp_path: Path) -> None:
    async def check() -> None:
        async with desk(tmp_path) as made:
            with crew() as hired:
                house = House(hired, made)
                await leave_one(house, made)
                house.open("bob")
                house.kill("ada")
                house.open("eve")
                assert len(house.find_orphans("ada")) >= 2
                os.kill(house.find_guardian("ada"), signal.SIGKILL)
                await until(lambda: not house.find_orphans("ada"))
                await until(lambda: house.run_folder("ada").find_guardian() is None)

    asyncio.run(check())
