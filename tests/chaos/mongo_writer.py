"""A process that submits and ends tasks in a MongoDB store, and says what was acknowledged, until it is killed."""

import asyncio
import sys

from ganger.core.ids import NodeId, QueueId
from ganger.core.state import move
from ganger.engine.store import Claim, Exchange, Submission
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.contracts.scene import plain


async def main(url: str, queue: QueueId, node: NodeId, kind: str) -> None:
    store = await MongoStore.open(url, SystemClock(), SystemEntropy())
    while True:
        ids = (await store.submit(Submission((plain(queue, kind=kind),) * 6))).ids
        say("had", *ids)
        claimed = (await store.exchange(Exchange(claim=Claim(node, (queue,), 5)))).claimed
        await store.exchange(Exchange(tuple(move(one.id, "succeed", one.fence) for one in claimed)))
        say("ended", *(one.id for one in claimed))


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], QueueId(int(sys.argv[2])), NodeId(int(sys.argv[3])), sys.argv[4]))
