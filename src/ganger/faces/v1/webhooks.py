"""Webhooks of new tasks: each is a task behind its own, submitted in the same step, so none is ever forgotten."""

from collections.abc import Sequence
from typing import Final

from ganger.core.errors import BadInput, NotAllowed
from ganger.core.ids import QueueId
from ganger.faces.http.grants import Grant
from ganger.faces.v1.backend import Backend, sign
from ganger.node.outbound import check_url
from ganger.wire.v1.requests import Draft
from ganger.wire.v1.webhooks import MARK, QUEUE, make_hook

_BYTES: Final = 16


class Webhooks:
    """Adds to a request what its tasks ask for."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def attach(self, drafts: list[Draft], grant: Grant) -> list[Draft]:
        """The drafts, and behind them a delivery for each that names a webhook."""
        if all(draft.webhook is None for draft in drafts):
            return drafts
        if grant.lease is not None:
            raise NotAllowed("an attempt adds tasks without webhooks: its own queue is the only one that it may fill")
        for draft in drafts:
            self._check(draft)
        queue = (await self._backend.engine.queues.ensure(QUEUE, by=sign(grant))).id
        return self._add(drafts, queue)

    def _check(self, draft: Draft) -> None:
        if draft.webhook is not None:
            check_url(draft.webhook, self._backend.outbound)
            if any(key == MARK for key, _ in draft.data):
                raise BadInput(f"{MARK!r} is the server's own value of a task with a webhook", field=f"data.{MARK}")

    def _add(self, drafts: Sequence[Draft], queue: QueueId) -> list[Draft]:
        nodes, hooks = list(drafts), []
        for index, draft in enumerate(drafts):
            if draft.webhook is not None:
                mark = self._backend.entropy.token(_BYTES).hex()
                nodes[index] = draft._replace(data=[*draft.data, (MARK, mark.encode())])
                hooks.append(Draft(make_hook(-index - 1, draft.task, draft.webhook, mark, queue), QUEUE))
        return nodes + hooks
