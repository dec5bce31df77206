"""What a killed guardian left is swept as soon as that is known, by whoever is there."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from ganger.assembly.folder import NodeFolder, list_neighbours
from ganger.node.guardian.folder import RunFolder
from ganger.node.sweeping import Sweeping
from ganger.runtime.entropy import SystemEntropy
from tests.unit.node.guarded import Diary, until

NOBODY = 2**22 + 1
"""No process has a number as high as that."""


def hear_nothing(told: Callable[[], None]) -> Callable[[], None]:
    return lambda: None


def leave(folder: Path, number: str = f"{NOBODY}\n") -> RunFolder:
    """The folder of a node that is gone, and of its guardian, which had this number."""
    NodeFolder.open(folder / "ada", SystemEntropy()).close()
    run = RunFolder(str(folder / "ada" / "commands"))
    run.prepare(SystemEntropy().token)
    Path(run.lock).write_text(number)
    return run


def test_what_is_left_when_a_node_starts_is_swept_before_anything_else(tmp_path: Path) -> None:
    async def check() -> None:
        run, diary = leave(tmp_path), Diary()
        sweeping = Sweeping(lambda: list_neighbours(tmp_path), hear_nothing, SystemEntropy(), diary)
        await sweeping.start()
        assert "node_swept" in diary.names()
        await until(lambda: not run.is_named())
        await sweeping.stop()

    asyncio.run(check())


def test_a_guardian_that_is_about_to_be_gone_and_still_has_its_lock_is_waited_for(tmp_path: Path) -> None:
    async def check() -> None:
        run, diary, looks = leave(tmp_path), Diary(), [0]

        def look() -> object:
            looks[0] += 1
            return list_neighbours(tmp_path)

        lock = os.open(run.lock, os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweeping = Sweeping(look, hear_nothing, SystemEntropy(), diary)  # type: ignore[arg-type]
        await sweeping.start()
        await until(lambda: looks[0] >= 2 and sweeping._jobs)
        assert "node_swept" not in diary.names()
        os.close(lock)
        await until(lambda: "node_swept" in diary.names() and not run.is_named())
        await sweeping.stop()

    asyncio.run(check())


def test_one_that_ended_in_order_has_left_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        run, diary = leave(tmp_path, ""), Diary()
        sweeping = Sweeping(lambda: list_neighbours(tmp_path), hear_nothing, SystemEntropy(), diary)
        await sweeping.start()
        assert (run.is_named(), "node_swept" in diary.names()) == (False, False)
        await sweeping.stop()

    asyncio.run(check())
