"""A program that knows the documents and nothing of Ganger takes part: in locks, in the list of nodes, in the work."""

import asyncio
import subprocess
import sys
from pathlib import Path

from ganger.assembly.coordination import open_coordination
from ganger.coordination.membership import Member
from tests.servers.opensearch import OpenSearchServer

PROGRAM = Path(__file__).parents[1] / "foreign" / "elastic_node.py"
ROUNDS = 25
PARTITIONS = 16
PATIENCE = 60.0


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(PROGRAM), *words], stdout=subprocess.PIPE, text=True)


def test_a_lock_is_shared_with_a_foreign_program(opensearch: OpenSearchServer, tmp_path: Path) -> None:
    address, file = opensearch.fresh_url(), tmp_path / "number"
    file.write_text("0")

    async def count() -> None:
        async with open_coordination(address) as coordination:
            foreign = start("count", address.removeprefix("elasticsearch+"), "lock/shared", str(file), str(ROUNDS))
            for _ in range(ROUNDS):
                hold = await coordination.lock("shared", ttl=5_000).acquire(PATIENCE)
                file.write_text(str(int(file.read_text()) + 1))
                hold.check()
                await hold.release()
            await asyncio.to_thread(foreign.communicate, timeout=PATIENCE)
            assert foreign.returncode == 0

    asyncio.run(count())
    assert file.read_text() == str(2 * ROUNDS)


def test_work_is_shared_with_a_foreign_node(opensearch: OpenSearchServer) -> None:
    address = opensearch.fresh_url()

    async def share() -> tuple[list[str], list[str]]:
        async with open_coordination(address) as coordination:
            cluster = coordination.cluster("etl", ttl=5_000)
            for number in range(PARTITIONS):
                await cluster.partitions.create(f"{number:02}", f"task {number}".encode())
            foreign = start("work", address.removeprefix("elasticsearch+"), "etl", "foreign", "5")
            assert foreign.stdout is not None
            assert await asyncio.to_thread(foreign.stdout.readline) == "joined\n"
            presence = cluster.join(3, "ours")
            await presence.start()
            await presence.ready.wait()
            assert list(await cluster.members.list()) == [Member("foreign", 5), Member("ours", 3)]

            own: list[str] = []
            while foreign.poll() is None:
                for work in await cluster.partitions.take("ours", 2, presence.position, 2):
                    own.append(work.task.decode())
                    assert await work.done()
            said, _ = await asyncio.to_thread(foreign.communicate, timeout=PATIENCE)
            await presence.stop()
            assert list(await cluster.members.list()) == [Member("foreign", 5)]
            return own, said.splitlines()

    own, foreign = asyncio.run(share())
    assert sorted([*own, *foreign]) == sorted(f"task {number}" for number in range(PARTITIONS))
    assert own
    assert foreign
