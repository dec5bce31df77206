"""The routes of nodes, and what is watched of them."""

from typing import Final

from ganger.core.errors import BadInput
from ganger.core.node import Node
from ganger.core.queue import Queue
from ganger.faces.disbatch.answering import answer
from ganger.faces.disbatch.asking import ask
from ganger.faces.disbatch.backend import DisbatchBackend, sign
from ganger.faces.http.reply import Answer
from ganger.faces.http.request import Request
from ganger.wire.disbatch.params import demand_object
from ganger.wire.disbatch.queues import report_in_node
from ganger.wire.disbatch.shapes import Check, Monitoring, NodeQueue, NodeReport, tell_update
from ganger.wire.disbatch.words import read_threads

PARAMETERS: Final = frozenset({"maxthreads"})
_NO_BALANCE: Final = Check("OK", "queuebalance disabled")


class Nodes:
    """The endpoints under `/nodes`, and `/monitoring`."""

    def __init__(self, backend: DisbatchBackend) -> None:
        self._backend = backend

    async def list_nodes(self, request: Request) -> Answer:
        return answer(await self._report(await self._backend.list_nodes()))

    async def show(self, request: Request) -> Answer:
        return answer((await self._report([await self._backend.find_node(request.values["node"])]))[0])

    async def change(self, request: Request) -> Answer:
        """Limit a node, now and whenever it comes back; null is as many as it says itself."""
        node = await self._backend.find_node(request.values["node"])
        said = demand_object(await ask(request), "No params")
        if not said:
            raise BadInput("No params")
        if unknown := sorted(set(said) - PARAMETERS):
            raise BadInput("Invalid param", param=unknown[0][:200])
        most = read_threads("maxthreads", said["maxthreads"])
        changed = await self._backend.engine.nodes.limit(node.name, most, by=sign(request.grant))
        return answer(tell_update(changed.slots != node.slots))

    async def _report(self, nodes: list[Node]) -> list[NodeReport]:
        counts, faces = await self._backend.count(), await self._backend.faces.name_nodes()
        names = await self._backend.faces.name_queues()
        reports = [
            (queue, report_in_node(names[queue.id], queue, counts.get(queue.id)))
            for queue in await self._backend.engine.queues.all()
            if queue.id in names
        ]
        return [_tell(faces.get(node.name, ""), node, reports) for node in nodes]

    async def monitor(self, request: Request) -> Answer:
        """Is anybody there to run tasks?"""
        now = self._backend.clock.wall()
        ages: dict[str, dict[str, int]] = {}
        for node in await self._backend.list_nodes():
            ages.setdefault("fresh" if node.here else "stale", {})[node.name] = max(0, now - node.seen) // 1_000
        return answer(Monitoring(_judge(ages), _NO_BALANCE))


def _tell(face: str, node: Node, queues: list[tuple[Queue, NodeQueue]]) -> NodeReport:
    taken = [told for queue, told in queues if node.takes_queue(queue.name) and queue.takes_node(node.name)]
    return NodeReport(face, face, node.name, node.seen, node.here, node.slots, taken)


def _judge(ages: dict[str, dict[str, int]]) -> Check:
    if not ages:
        return Check("WARNING", "No Disbatch nodes found")
    if "fresh" in ages:
        return Check("OK", "Disbatch is running on one or more nodes", ages)
    return Check("CRITICAL", "No active Disbatch nodes found", ages)
