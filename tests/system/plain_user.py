"""What a guardian must do for a user without any rights: run as a program of that user, with a folder of its own."""

import asyncio
import sys
from pathlib import Path

from ganger.core.outcome import Killed
from ganger.node.isolation import Isolation
from tests.unit.node.guarded import assign, begin, executor, heard, run, shell, survivors


async def live(folder: Path, isolation: Isolation) -> None:
    async with executor(folder, isolation=isolation) as made:
        ended = await run(made, assign(1, shell("id -u; sleep 1000 & (setsid sleep 1000 &)", grace=500)))
        assert ended.data["stdout"] == b"65534\n", ended
        started = await begin(made, assign(2, shell("trap '' TERM; echo ready; while :; do sleep 1; done", grace=50)))
        await heard(made, started, b"ready")
        await started.stop("enough")
        assert isinstance((await started.ended()).outcome, Killed)
        assert survivors(folder) == []


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), Isolation(sys.argv[2])))
