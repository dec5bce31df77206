"""What a type checker says of programs that use the SDK."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from datetime import date
from ganger import Ganger
from ganger.client import command

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

with app.graph() as g:
    reveal_type(g.task(add, g.command(["true"]).result))        # GraphTask[int]

add.delay("1")                 # error: arg-type
add.delay(1, c=2)              # error: call-arg
add.map(["a"])                 # error: list-item
add.using(colour="red")        # error: call-arg
send.delay("a")                # error: call-arg
app.task(queue=1)              # error: call-overload
app.command(["true"], cwd=1)   # error: arg-type
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
        capture_output=True, text=True, timeout=55, check=False,
    ).stdout.splitlines()  # fmt: skip

    expected = {number: _says(line) for number, line in enumerate(PROGRAM.splitlines(), 1) if "  #" in line}
    told = {int(found[1]): line for line in said if (found := re.match(r".*?:(\d+): (?:note: Rev|error)", line))}
    assert told.keys() == expected.keys(), "\n".join(said)
    assert not [line for number, line in told.items() if str(expected[number]) not in _short(line)]
