"""The one shape of a loop, under everything that is done to loops."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ganger.runtime.service import Service, ServiceState

DEADLINE = 5.0


class Told:
    """Keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self._news = asyncio.Event()

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))
        self._news.set()

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    async def until(self, name: str, count: int = 1) -> None:
        while self.names().count(name) < count:
            self._news.clear()
            await self._news.wait()


class Looping(Service):
    """Runs until it is ended, and says when it runs."""

    def __init__(self, name: str = "looping", order: list[str] | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        self.running = asyncio.Event()
        self.order = order if order is not None else []

    async def run(self) -> None:
        self.order.append(f"{self.name} runs")
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.order.append(f"{self.name} ended")


class Finishing(Service):
    """Finishes what it has when it is drained."""

    finished = False

    async def run(self) -> None:
        await self.draining.wait()
        self.finished = True


class Crashing(Service):
    runs = 0
    healthy_after = 3

    async def run(self) -> None:
        self.runs += 1
        if self.runs <= self.healthy_after:
            raise ValueError(f"crash {self.runs}")


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, DEADLINE))


def test_children_run_before_their_parent_and_end_after_it() -> None:
    async def scenario() -> None:
        order: list[str] = []
        child = Looping("child", order)
        parent = Looping("parent", order, children=[child])
        await parent.start()
        await parent.running.wait()
        await parent.stop()
        assert order == ["child runs", "parent runs", "parent ended", "child ended"]
        assert parent.state is child.state is ServiceState.STOPPED

    run(scenario())


def test_a_crash_is_told_and_the_loop_begins_again() -> None:
    async def scenario() -> None:
        told = Told()
        service = Crashing("crashing", telemetry=told, pause=0.001)
        await service.start()
        await told.until("service_crashed", 3)
        await service.drain()
        crashes = [fields for name, fields in told.events if name == "service_crashed"]
        assert [str(fields["error"]).partition(" at ")[0] for fields in crashes] == ["ValueError,"] * 3
        assert [fields["pause"] for fields in crashes] == [0.001, 0.002, 0.004]

    run(scenario())


def test_a_loop_that_returns_is_not_begun_again() -> None:
    async def scenario() -> None:
        service = Crashing("done", pause=0.001)
        service.healthy_after = 0
        await service.start()
        await service.drain()
        assert service.runs == 1

    run(scenario())


def test_many_stops_at_once_share_one_ending() -> None:
    async def scenario() -> None:
        told = Told()
        service = Looping(telemetry=told)
        await service.start()
        await service.running.wait()
        await asyncio.gather(*(service.stop() for _ in range(50)), service.drain())
        assert told.names().count("service_stopped") == 1
        assert service.order.count("looping ended") == 1

    run(scenario())


def test_an_ending_goes_on_when_the_one_who_waits_is_cancelled() -> None:
    async def scenario() -> None:
        service = Looping(children=[Looping("child")])
        await service.start()
        await service.running.wait()
        impatient = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        await service.stop()
        assert service.state is ServiceState.STOPPED

    run(scenario())


def test_a_service_may_stop_itself() -> None:
    async def scenario() -> None:
        told = Told()

        class Quitting(Service):
            async def run(self) -> None:
                await self.stop()

        service = Quitting("quitting", telemetry=told)
        await service.start()
        await told.until("service_stopped")
        await service.stop()
        assert "service_crashed" not in told.names()

    run(scenario())


def test_a_loop_that_lost_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganger.runtime.service.CANCEL_AGAIN", 0.01)

    class Deaf(Service):
        heard = 0

        async def run(self) -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    # As a library does whose wait ends in the moment of the cancellation.
                    self.heard += 1
                    if self.heard == 3:
                        raise

    async def scenario() -> None:
        service = Deaf("deaf")
        await service.start()
        await asyncio.sleep(0)
        await service.stop()
        assert service.heard == 3
        assert service.state is ServiceState.STOPPED

    run(scenario())


def test_a_stop_before_the_start_refuses_the_start() -> None:
    async def scenario() -> None:
        service = Looping()
        await service.stop()
        with pytest.raises(RuntimeError, match="make a new one"):
            await service.start()
        assert service.order == []

    run(scenario())


def test_a_stop_during_the_start_leaves_nothing_running() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        class SlowStart(Looping):
            async def start(self) -> None:
                await gate.wait()
                await super().start()

        told = Told()
        first, slow = Looping("first", telemetry=told), SlowStart("slow")
        parent = Looping("parent", children=[first, slow])
        starting = asyncio.create_task(parent.start())
        await first.running.wait()
        stopping = asyncio.create_task(parent.stop())
        await told.until("service_stopped")
        gate.set()
        with pytest.raises(RuntimeError):
            await starting
        await stopping
        assert (parent.order, slow.order) == ([], [])
        assert first.state is ServiceState.STOPPED

    run(scenario())


def test_a_child_that_cannot_start_takes_the_others_down() -> None:
    async def scenario() -> None:
        class Broken(Service):
            async def start(self) -> None:
                raise OSError("no such port")

        good = Looping("good")
        parent = Looping("parent", children=[good, Broken("broken")])
        with pytest.raises(OSError, match="no such port"):
            await parent.start()
        assert good.state is parent.state is ServiceState.STOPPED

    run(scenario())


def test_a_drain_lets_the_loop_finish_what_it_has() -> None:
    async def scenario() -> None:
        child = Finishing("child")
        parent = Finishing("parent", children=[child])
        await parent.start()
        await parent.drain()
        assert (parent.finished, child.finished) == (True, True)
        assert parent.state is ServiceState.STOPPED

    run(scenario())


def test_a_drain_does_not_wait_out_the_pause_after_a_crash() -> None:
    async def scenario() -> None:
        told = Told()
        service = Crashing("crashing", telemetry=told, pause=1_000)
        await service.start()
        await told.until("service_crashed")
        await service.drain()
        assert service.runs == 1

    run(scenario())


def test_a_second_start_changes_nothing() -> None:
    async def scenario() -> None:
        service = Looping()
        await service.start()
        await service.running.wait()
        await service.start()
        await service.stop()
        assert service.order == ["looping runs", "looping ended"]

    run(scenario())


@pytest.mark.parametrize("rounds", [200])
def test_starts_and_stops_in_any_interleaving_leave_nothing_running(rounds: int) -> None:
    async def scenario() -> None:
        for turn in range(rounds):
            child = Looping("child")
            service = Looping("service", children=[child])
            calls = [asyncio.create_task(call()) for call in (service.start, service.stop, service.drain)]
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            await service.stop()
            await asyncio.gather(*calls, return_exceptions=True)
            for part in (service, child):
                assert part.state is ServiceState.STOPPED
                assert part.order.count(f"{part.name} runs") == part.order.count(f"{part.name} ended")

    run(scenario())
