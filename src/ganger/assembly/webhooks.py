"""Delivers webhooks from the server's process: a small node of its own, once there is something to deliver."""

import asyncio
from contextlib import suppress
from importlib.metadata import version
from typing import Final

from ganger.assembly.queue_webhooks import QueueWebhooks, find_place
from ganger.assembly.secrets import locate_secrets
from ganger.assembly.settings import Settings
from ganger.assembly.source import EngineSource, choose_lease
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import QueueNotFound
from ganger.core.ids import TaskId
from ganger.core.task import Task
from ganger.engine.engine import Engine
from ganger.engine.store import QUEUES_TOPIC, RESET_TOPIC
from ganger.node.executors.webhook import Courier, WebhookExecutor
from ganger.node.node import Node
from ganger.node.options import NodeOptions
from ganger.node.outbound import Rule, trust
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.v1.webhooks import KEY, KIND, MARK, QUEUE, WebhookSpec, make_message

_SLOTS: Final = 8
_LOOK: Final = 60.0
_BYTES: Final = 32


def read_rule(settings: Settings) -> Rule:
    """Which hosts webhooks may reach besides those of the public internet."""
    return trust(Rule(), settings.webhook_hosts)


class WebhookService(Service):
    """Waits until there is a queue of webhooks, and works on it from then on."""

    def __init__(
        self, settings: Settings, engine: Engine, clock: Clock, entropy: Entropy, *, telemetry: Telemetry = SILENT
    ) -> None:
        of_queues = QueueWebhooks(find_place(settings), engine, telemetry=telemetry)
        super().__init__("webhooks", children=[of_queues], telemetry=telemetry)
        self._settings = settings
        self._engine = engine
        self._clock = clock
        self._entropy = entropy
        self._key = entropy.token(_BYTES).hex()

    async def run(self) -> None:
        changed = asyncio.Event()
        unlisten = self._engine.store.listen((QUEUES_TOPIC, RESET_TOPIC), lambda _: changed.set())
        try:
            await self._wait_for_queue(changed)
        finally:
            unlisten()
        if not self.draining.is_set():
            await self._work()

    async def _wait_for_queue(self, changed: asyncio.Event) -> None:
        while not self.draining.is_set():
            changed.clear()
            with suppress(QueueNotFound):
                await self._engine.queues.named(QUEUE)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await changed.wait()

    async def _work(self) -> None:
        node = self._make_node()
        try:
            await node.start()
            await self.draining.wait()
            await node.drain()
        finally:
            await node.stop()

    def _make_node(self) -> Node:
        name = f"webhooks-{self._entropy.token(4).hex()}"
        lease = choose_lease(self._engine.store.capabilities)
        options = NodeOptions(name, slots=_SLOTS, lease=lease, queues=(QUEUE,), kinds=(KIND,))
        agent = f"Ganger/{version('ganger')}"
        courier = Courier(read_rule(self._settings), self._compose, self._find_key, agent, self._clock)
        return Node(
            EngineSource(self._engine, self._clock), [WebhookExecutor(courier)], [], options,
            clock=self._clock, entropy=self._entropy, telemetry=self._telemetry,
        )  # fmt: skip

    async def _compose(self, hook: TaskId, spec: WebhookSpec) -> bytes | None:
        """The message about the node that the webhook belongs to."""
        task = await self._find_marked(hook, spec.mark) if spec.mark else await self._find(TaskId(spec.task))
        if task is None:
            return None
        return make_message(task, (await self._engine.queues.get(task.queue)).name, hook)

    async def _find_marked(self, hook: TaskId, mark: str) -> Task | None:
        """The parent with that mark. One that was removed has left the webhook other parents."""
        for parent, _ in (await self._engine.look(hook)).family.parents:
            task = await self._find(parent)
            if task is not None and (await self._engine.read_data(parent, MARK)).body == mark.encode():
                return task
        return None

    async def _find(self, task: TaskId) -> Task | None:
        (found,) = await self._engine.tasks([task])
        return found

    def _find_key(self) -> str:
        """The secret of the store that signs; made when it is first needed."""
        secrets = locate_secrets(self._settings)
        if secrets is None:
            return self._key
        if (found := secrets.find(KEY)) is None:
            secrets.put(KEY, self._key)
            return self._key
        return found
