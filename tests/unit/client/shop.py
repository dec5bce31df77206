"""The functions that the tests of the SDK submit."""

import asyncio
import threading
from datetime import date

from ganger import Ganger
from ganger.client import Cancel, Retry, Snooze
from ganger.node.functions.context import current

app = Ganger("memory:", upkeep=False)


@app.task
def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(queue="calendar", retries=2, timeout=9)
async def next_year(day: date) -> date:
    await asyncio.sleep(0)
    return day.replace(year=day.year + 1)


@app.task
def total(numbers: list[int | None]) -> int:
    return sum(number or 0 for number in numbers)


@app.task
def halve(numbers: list[float]) -> list[float]:
    return [number / 2 for number in numbers]


@app.task
def refuse(what: str = "this") -> None:
    raise ValueError(f"not {what}")


@app.task(retries=3)
def moody(mood: str) -> int:
    if current().fence > 1:
        return current().attempt
    raise {"retry": Retry(1), "snooze": Snooze(1), "cancel": Cancel("of no use")}.get(mood, ValueError(mood))


@app.task
def where() -> int:
    return threading.get_ident()


@app.task
def fan(width: int) -> list[int]:
    return [add.delay(number, 0).id for number in range(width)]


@app.task
def opaque() -> object:
    return object()
