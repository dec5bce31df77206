"""Functions under fire: processes die and are stopped, nodes are killed, and every task ends as it deserves."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from ganger.core.outcome import Crashed, Killed, Release, Succeed
from ganger.core.state import Status
from ganger.node.executor import Assignment
from tests.system.harness import Member, crew
from tests.system.harness_node import PATIENCE, desk, serve_node
from tests.unit.node.functional import Works, perform

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_the_death_of_a_process_makes_no_other_function_run_twice(tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)

    async def scenario(works: Works) -> None:
        jobs = [_draw(luck, works, tmp_path / str(number)) for number in range(300)]
        waiting = list(jobs)
        while len(works.ended) < len(jobs):
            some, waiting = waiting[: works.executor.room], waiting[works.executor.room :]
            await works.start(*(job for _, job in some))
            for kind, job in some:
                if kind == "obey":
                    asyncio.get_running_loop().call_later(luck.random() / 10, _stop, works, job)
            await works.news(0.2)
        for number, (kind, job) in enumerate(jobs):
            outcome = works.ended[job.claimed.id].outcome
            path = tmp_path / str(number)
            runs = path.read_text().count("run") if path.exists() else 0
            assert isinstance(outcome, _ENDS[kind]), (kind, outcome)
            assert kind != "note_run" or runs == (1 if isinstance(outcome, Succeed) else 0)

    perform(scenario, tmp_path / "works", processes=2, recycle_after=luck.choice([None, 40]))


_ENDS = {"note_run": (Succeed, Release), "die": (Crashed, Release), "obey": (Killed, Release)}


def _draw(luck: random.Random, works: Works, path: Path) -> tuple[str, Assignment]:
    (kind,) = luck.choices(["note_run", "die", "obey"], [90, 5, 5])
    args = [str(path)] if kind == "note_run" else []
    return kind, works.assign(kind, *args, grace=luck.choice([0, 50]))


def _stop(works: Works, job: Assignment) -> None:
    works.stopping.append(asyncio.ensure_future(works.executor.stop(job.claimed.id, job.claimed.fence, "not wanted")))


def test_nodes_that_are_killed_lose_no_task_and_blame_only_what_ran(tmp_path: Path) -> None:
    options = {"kinds": ("function",), "lease": 1_000}

    async def run() -> None:
        async with asyncio.timeout(PATIENCE * 2), desk(tmp_path) as made:
            runs = [tmp_path / f"run{number}" for number in range(400)]
            tasks = await made.submit(*(made.call("note_run_slowly", str(path)) for path in runs))
            with crew() as hired:
                members = {
                    name: hired.start(serve_node, tmp_path, {**options, "name": name}) for name in ("ada", "eve")
                }
                for _ in range(6):
                    for name, member in list(members.items()):
                        member.hear()
                        await asyncio.wait([asyncio.create_task(made.engine.wait(tasks, 0.05))])
                        members[name] = _replace(hired, member, tmp_path, {**options, "name": name})
                assert set(await made.wait(*tasks)) == {Status.SUCCEEDED}
                ran = Counter(path.read_text().count("run") for path in runs)
                crashes = [(await made.get(task)).crashes for task in tasks]

            assert not ran[0]
            assert sum(crashes) <= 12, "each death blames at most the one function that was executed"

    asyncio.run(run())


def _replace(hired: object, member: Member, folder: Path, options: dict[str, object]) -> Member:
    member.kill()
    hired.bury(member)  # type: ignore[attr-defined]
    started: Member = hired.start(serve_node, folder, options)  # type: ignore[attr-defined]
    return started
