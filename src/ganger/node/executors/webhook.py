"""Executes webhooks: each attempt is one signed request. What comes of it is the outcome of a task like any other.

| the attempt | outcome |
|---|---|
| was answered with 2xx | Succeed |
| was answered otherwise, not at all, or too late | Fail, and tried again as its policy says |
| goes to an address that may not be asked | Fail, never tried again |
| is about a node that was removed | Succeed: there is nobody to tell of |
| cannot read the store | Release, after a second |

A request that was answered too late may have arrived: a receiver may be told twice, and knows it by `Ganger-Delivery`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from ganger.core.clock import Clock, Moment
from ganger.core.errors import BadInput, GangerError, NotAllowed, StoreError
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Fail, Killed, Outcome, Release, Succeed
from ganger.node.executor import Assignment, Ended
from ganger.node.outbound import Answered, Rule, post
from ganger.wire.specs import decode
from ganger.wire.v1.webhooks import KIND, WebhookSpec, sign

_PAUSE: Final = 1_000
Compose = Callable[[TaskId, WebhookSpec], Awaitable[bytes | None]]
Post = Callable[..., Awaitable[Answered]]


class Courier(NamedTuple):
    """What every delivery needs: whom it may go to, what it says (None: nothing more), and the key that signs it."""

    rule: Rule
    compose: Compose
    find_key: Callable[[], str]
    agent: str
    clock: Clock
    post: Post = post


class WebhookRun:
    """One delivery. It is bounded in time, and may happen twice: so it needs no trust in its lease."""

    def __init__(self, assignment: Assignment, courier: Courier, over: "Callable[[WebhookRun], None]") -> None:
        self._claimed = assignment.claimed
        self._spec = assignment.spec
        self._courier = courier
        self._unfinished: Outcome = Release()
        self._work = asyncio.create_task(self._deliver(), name=f"webhook {self.task}")
        self._work.add_done_callback(lambda _: over(self))

    @property
    def task(self) -> TaskId:
        return self._claimed.id

    @property
    def fence(self) -> Fence:
        return self._claimed.fence

    async def begun(self) -> None:
        """It runs from the beginning."""

    async def ended(self) -> Ended:
        await asyncio.wait([self._work])
        return Ended(self._unfinished if self._work.cancelled() else self._work.result())

    async def stop(self, reason: str) -> None:
        self._unfinished = Killed(reason)
        self._work.cancel()

    def give_back(self) -> None:
        """Leave it to another: whether it arrived is not known."""
        self._work.cancel()

    def withdraw(self) -> None:
        """It has begun."""

    def trust(self, until: Moment) -> None:
        """It ends by itself before that matters."""

    def forget(self) -> None:
        """Nothing of it is kept."""

    async def _deliver(self) -> Outcome:
        try:
            return await self._send(decode(self._spec, WebhookSpec))
        except StoreError:
            return Release(_PAUSE)
        except (BadInput, NotAllowed) as error:
            return Fail(reason=str(error), again=False)
        except GangerError as error:
            return Fail(reason=str(error))
        except TimeoutError:
            return Fail(reason="no answer came in time")
        except (OSError, ValueError) as error:
            return Fail(reason=f"it could not be sent: {error}")

    async def _send(self, spec: WebhookSpec) -> Outcome:
        courier = self._courier
        body = await courier.compose(self.task, spec)
        if body is None:
            return Succeed(b"removed")
        now = courier.clock.wall()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": courier.agent,
            "Ganger-Delivery": str(self.task),
            "Ganger-Timestamp": str(now),
            "Ganger-Signature": sign(courier.find_key(), now, body),
        }
        answered = await courier.post(spec.url, body, headers, courier.rule)
        word = str(answered.status)
        return Succeed(word.encode()) if answered.is_good else Fail(reason=f"it was answered with {word}")


class WebhookExecutor:
    """Delivers what tasks of the kind `plugin:webhook` say."""

    kinds: Sequence[str] = (KIND,)
    ahead = 0
    spool = None

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._runs: set[WebhookRun] = set()

    async def start(self, assignment: Assignment) -> WebhookRun:
        run = WebhookRun(assignment, self._courier, self._runs.discard)
        self._runs.add(run)
        return run

    async def adopt(self) -> Sequence[WebhookRun]:
        """Deliveries end with their process, and are made again."""
        return []

    async def close(self, *, leave_running: bool) -> None:
        """Deliveries that are under way are made again, by whoever comes next."""
        runs = list(self._runs)
        for run in runs:
            run.give_back()
        for run in runs:
            await run.ended()
