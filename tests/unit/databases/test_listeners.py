"""Who listens is told on the loop, at once, and whatever the others do."""

import asyncio
from typing import Any

from ganger.databases.sqlite.listeners import Listeners


def hear(topics: list[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """What a listener to a and b was told of these topics, where another one fails, and what the loop was told."""
    heard: list[str] = []
    failures: list[dict[str, Any]] = []

    def fail(_: str) -> None:
        raise RuntimeError("deaf")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        listeners = Listeners(loop, lambda: None)
        listeners.add(["a"], fail)
        listeners.add(["a", "b"], heard.append)
        await asyncio.to_thread(listeners.tell, topics)
        await asyncio.sleep(0)

    asyncio.run(scenario())
    return heard, failures


def test_a_listener_that_fails_keeps_nobody_from_hearing() -> None:
    heard, (failure,) = hear(["a", "b", "c"])
    assert heard == ["a", "b"]
    assert str(failure["exception"]) == "deaf"
    assert failure["message"] == "a listener to a failed"


def test_one_that_was_removed_after_the_wake_up_was_sent_is_not_told() -> None:
    heard: list[str] = []

    async def scenario() -> None:
        listeners = Listeners(asyncio.get_running_loop(), lambda: None)
        leave = listeners.add(["a"], heard.append)
        listeners.tell(["a"])
        leave()
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert heard == []
