"""What a type checker says of programs that use the SDK."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from datetime import date, timedelta
from ganger import Ganger
from ganger.client import command, wait_until, when

app = Ganger()

@app.task
def add(a: int, b: int = 1) -> int:
    return a + b

@app.task(queue="mail", retries=3)
async def send(to: str, day: date) -> bool:
    return True

reveal_type(add(1))                             # int
reveal_type(add.delay(1, b=2))                  # Handle[int]
reveal_type(add.delay(1).result())              # int
reveal_type(add.map([1, 2]))                    # list[Handle[int]]
reveal_type(add.using(queue="x").bind(1))       # Call[int]
reveal_type(send.delay("a", date(2024, 1, 1)))  # Handle[bool]
reveal_type(app.command(["true"]))              # Handle[int]
reveal_type(app.group([add.bind(1)]).results())  # list[int]

async def main() -> None:
    reveal_type(await send("a", date(2024, 1, 1)))              # bool
    handle = reveal_type(await send.enqueue("a", date(2024, 1, 1)))  # AsyncHandle[bool]
    reveal_type(await (await add.enqueue(1)))                   # int
    reveal_type(await handle.wait(1, through_hold=True))        # bool
    reveal_type((await app.enqueue_when(gone="/x", then=add.bind(1))).otherwise)  # tuple[Handle[Any], ...]
    reveal_type((await app.enqueue_wait_until(command=["true"], timeout=5)).handle)  # Handle[None]
    reveal_type((await app.async_sync_schedules(remove=True)).removed)  # tuple[str, ...]
    reveal_type(await app.async_wait([handle], 1, through_hold=True))  # bool
    reveal_type(await (await app.enqueue_group([add.bind(1)])).async_results(through_hold=True))  # list[int]
    async with app.graph() as graph:
        reveal_type(graph.when(at=5, after=graph.shell("true")).then)  # Ending
    await app.enqueue_when(file="/x", then=add)                 # error: arg-type

with app.graph() as g:
    reveal_type(g.task(add, g.command(["true"]).result))        # GraphTask[int]
    check = g.when(file="/x", then=add.bind(1), otherwise=[g.task(add, 1)])
    reveal_type(check)                                          # Condition
    reveal_type(g.shell("true", after=[check.then, check.otherwise]))  # GraphTask[int]
    reveal_type(g.wait_until(expression="a.result", parents={"a": check}, every=timedelta(1)))  # Condition
    reveal_type(g.add(wait_until(port=("localhost", 80), deadline=5)))  # GraphTask[None]
    reveal_type(g.add(add.bind(1)).handle)                      # Handle[int]

@app.cron("@daily", tz="Europe/Berlin", queue="reports")
def report(kind: str = "short") -> str:
    return kind

@app.every(timedelta(minutes=5), name="tidy", args=[1])
@app.task
async def tidy(n: int) -> bool:
    return True

reveal_type(report.delay("long").result(through_hold=True))     # str
reveal_type(tidy.delay(1))                                      # Handle[bool]
reveal_type(app.sync_schedules().gone)                          # tuple[str, ...]
reveal_type(app.when(url="http://localhost/").handle)           # Handle[None]
reveal_type(app.wait_until(delay=5, then=add.bind(1)).then)     # tuple[Handle[Any], ...]
reveal_type(when(gone="/x"))                                    # Call[None]
reveal_type(app.group([add.bind(1)]).wait(1, through_hold=True))  # bool
app.schedule("x", command(["true"]), cron="@daily", overlap=True)

add.delay("1")                 # error: arg-type
add.delay(1, c=2)              # error: call-arg
add.map(["a"])                 # error: list-item
add.using(colour="red")        # error: call-arg
send.delay("a")                # error: call-arg
app.task(queue=1)              # error: call-overload
app.command(["true"], cwd=1)   # error: arg-type
app.shell("true", colour=1)    # error: call-arg
app.when(file=1)               # error: arg-type
app.when(file="/x", every=1)   # error: call-arg
app.wait_until(port="x:1")     # error: arg-type
app.cron("@daily", tz=1)       # error: arg-type
app.cron()                     # error: call-arg
app.every(b"5m")               # error: arg-type
app.wait_until(file="/x", deadline=[1])  # error: arg-type
app.sync_schedules(delete=True)  # error: call-arg
add.delay(1).wait(through=True)  # error: call-arg
report.delay(1)                # error: arg-type
app.schedule("x", add, cron="@daily")  # error: arg-type
"""


def _says(line: str) -> str | None:
    """What the comment of a line expects."""
    found = re.search(r"# (error: )?(.+)$", line)
    return None if found is None else found[2].strip()


def _short(line: str) -> str:
    return re.sub(r"\b(builtins|ganger\.client\.\w+)\.", "", line)


@pytest.mark.slow
def test_a_type_checker_knows_arguments_and_results(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    said = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", program],
        capture_output=True, text=True, timeout=150, check=False,
    ).stdout.splitlines()  # fmt: skip

    expected = {number: _says(line) for number, line in enumerate(PROGRAM.splitlines(), 1) if "  #" in line}
    told = {int(found[1]): line for line in said if (found := re.match(r".*?:(\d+): (?:note: Rev|error)", line))}
    assert told.keys() == expected.keys(), "\n".join(said)
    assert not [line for number, line in told.items() if str(expected[number]) not in _short(line)]
