"""The life of a task becomes spans when it has ended."""

import asyncio

import pytest

from ganger.core.outcome import Fail, Succeed
from ganger.core.retry import Fixed, Retry, to_text
from ganger.engine.tracing import CONTEXT, Span, Tracing, draw, is_context
from tests.unit.engine.stage import Stage, play

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Taken:
    """A tracer that keeps what it is given."""

    def __init__(self) -> None:
        self.spans: asyncio.Queue[tuple[Span, str | None]] = asyncio.Queue()

    def trace(self, span: Span, context: str | None) -> None:
        self.spans.put_nowait((span, context))


def test_waiting_claim_run_and_settle_of_each_attempt_are_told() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit(stage.task(retry=to_text(Retry(2, Fixed(0)))))
        begun = stage.fake.wall()
        for outcome in (Fail(3, "no luck"), Succeed()):
            stage.fake.advance(1_000)
            claimed = await stage.take_one()
            stage.fake.advance(10)
            await stage.engine.start([claimed.lease])
            stage.fake.advance(500)
            await stage.engine.settle([(claimed, outcome)])
        span = draw(await stage.engine.look(task), "mail", 5)
        assert (span.name, span.start, span.end, span.error) == ("task", begun, begun + 3_020, None)
        assert span.attributes["ganger.task"] == task
        parts = sorted((part.start - begun, part.end - begun, part.name) for part in span.below)
        assert parts == [
            (0, 1_000, "wait"), (1_000, 1_010, "claim"), (1_010, 1_510, "run"), (1_510, 1_510, "settle"),
            (1_510, 2_510, "wait"), (2_510, 2_520, "claim"), (2_520, 3_020, "run"), (3_020, 3_020, "settle"),
        ]  # fmt: skip
        assert [part.error for part in span.below if part.name == "run"] == ["no luck", None]

    play(scenario)


def test_a_task_that_ends_is_traced_in_the_trace_that_it_came_with() -> None:
    async def scenario(stage: Stage) -> None:
        taken = Taken()
        tracing = Tracing(stage.engine, taken)
        await tracing.start()
        made = await stage.engine.submit([stage.task(), stage.task()], data=[(0, CONTEXT, TRACE.encode())])
        await stage.engine.cancel(made.ids, by="test")
        told = [await taken.spans.get() for _ in range(2)]
        contexts = {span.attributes["ganger.task"]: context for span, context in told}
        assert contexts == {made.ids[0]: TRACE, made.ids[1]: None}
        assert {span.error for span, _ in told} == {"cancelled"}
        await tracing.stop()

    play(scenario)


def test_what_ended_just_before_a_stop_is_traced_and_nothing_that_comes_after_it() -> None:
    async def scenario(stage: Stage) -> None:
        taken = Taken()
        tracing = Tracing(stage.engine, taken)
        await tracing.start()
        first, *rest = (await stage.engine.submit([stage.task() for _ in range(4)])).ids
        await stage.engine.cancel([first], by="test")
        await taken.spans.get()
        stage.store.deaf = True
        await stage.engine.cancel(rest, by="test")
        await tracing.stop()
        assert taken.spans.empty()
        await tracing.trace_rest()
        assert taken.spans.qsize() == len(rest)
        await tracing.trace_rest()
        assert taken.spans.qsize() == len(rest)

    play(scenario)


@pytest.mark.parametrize(
    "text", ["", "x", TRACE[:-1], TRACE.upper(), f"{TRACE}\n", f"00-{'0' * 32}-b7ad6b7169203331-01"]
)
def test_what_is_no_context_is_not_taken_for_one(text: str) -> None:
    assert is_context(TRACE)
    assert not is_context(text)
