"""Of an error that nobody expected it is said what it is and where it was raised, never what it was raised about."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ganger.core import names
from ganger.core.errors import BadInput
from ganger.runtime.faults import name_fault, tell_faults
from ganger.runtime.service import Service
from ganger.runtime.tuning import make_serving_loop

SECRET = "what nobody else may read"


class Heard:
    """What was told."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []
        self.some = asyncio.Event()

    def event(self, name: str, **fields: object) -> None:
        self.events.append({"name": name, **fields})
        self.some.set()


def fail(content: str) -> None:
    raise KeyError(content)


def catch(work: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        work()
    return caught.value


def test_what_a_foreign_error_was_raised_about_is_left_out() -> None:
    found = catch(lambda: SECRET.encode("utf-16").decode("ascii"))
    assert "n\\x00o\\x00b\\x00o\\x00d\\x00y" in repr(found)

    assert name_fault(found) == "UnicodeDecodeError"
    assert name_fault(catch(lambda: fail(SECRET))) == "KeyError"


def test_our_own_words_and_those_of_the_system_are_told() -> None:
    assert name_fault(BadInput("a queue has a name")) == "bad_input: a queue has a name"
    assert name_fault(FileNotFoundError(2, "No such file or directory", SECRET)) == (
        "FileNotFoundError: No such file or directory"
    )


def test_it_is_said_where_it_was_raised() -> None:
    said = name_fault(catch(lambda: names.check("queue", "no\nname")))

    assert said.startswith("bad_name: ")
    assert ", at core/names.py:" in said


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, make_serving_loop])
def test_a_callback_that_fails_is_told_without_what_it_was_given(loop: Callable[[], Any]) -> None:
    heard = Heard()

    async def story() -> None:
        tell_faults(heard)
        asyncio.get_running_loop().call_soon(partial(fail, SECRET))
        asyncio.get_running_loop().call_soon(fail, SECRET)
        async with asyncio.timeout(30):
            while len(heard.events) < 2:
                heard.some.clear()
                await heard.some.wait()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())
    assert [event["error"] for event in heard.events] == ["KeyError"] * 2
    assert "nobody" not in str(heard.events)
    assert all(str(event["what"]).startswith("Exception in callback") for event in heard.events)


def test_a_service_that_crashes_is_told_without_what_it_was_at() -> None:
    class Broken(Service):
        async def run(self) -> None:
            raise KeyError(SECRET)

    async def story() -> Heard:
        heard = Heard()
        service = Broken("broken", telemetry=heard)
        await service.start()
        async with asyncio.timeout(30):
            while not any(event["name"] == "service_crashed" for event in heard.events):
                heard.some.clear()
                await heard.some.wait()
        await service.stop()
        return heard

    assert "nobody" not in str(asyncio.run(story()).events)
