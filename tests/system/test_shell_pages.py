"""What the README and the tutorials say to type is typed, in a fresh folder, beside a node that they start.

In a block without a language, a line that begins with `$` is typed, and what follows it is what is shown, apart from
ages and blanks. A command without anything after it may say what it likes. It must succeed, unless `echo $?` comes
next. A line that starts a node is typed first, in another terminal. A block in `make`, `toml` or `yaml`, or one of
Python that begins with the name of a file, is a file; its first line says its name.
"""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES: Final = ("make", "toml", "yaml")
NAMED: Final = re.compile(r"# \w+\.py\n")
PORT: Final = "localhost:8470"
AGE: Final = re.compile(r"<?\b\d+(ms|s)\b")
MARK: Final = re.compile(r"\n@(\d+) (\d+)\n")
MARKING: Final = 'mark() { local code=$?; printf "\\n@%s %s\\n" "$1" "$code"; return $code; }\n'
DEADLINE: Final = 250.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Typed(NamedTuple):
    """A line that is typed, and the lines that are shown after it."""

    line: str
    shown: list[str]


def read_blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def read_typed(page: Path) -> list[Typed]:
    return [typed for form, text in read_blocks(page) if not form for typed in read_block(text)]


def read_block(text: str) -> list[Typed]:
    typed: list[Typed] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            typed.append(Typed(line[2:], []))
        elif typed:
            typed[-1].shown.append(line)
    return typed


PAGES: Final = [page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/tutorial/*.md"))) if read_typed(page)]


def prepare(page: Path, folder: Path) -> dict[str, str]:
    """Write the files of the page, and a `ganger` and a `python` that can be called; the environment of its shell."""
    for form, text in read_blocks(page):
        if form in FILES or (form == "python" and NAMED.match(text)):
            (folder / text.split("\n", 1)[0].removeprefix("# ")).write_text(text)
    programs = folder / "bin"
    programs.mkdir()
    for name, words in (("ganger", '-c "from ganger.cli.main import main; main()"'), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
    return port


@contextmanager
def started(node: Typed, folder: Path, env: dict[str, str], port: int) -> Iterator[None]:
    """The node of the page, until the block ends. The first word lets what runs finish, the second ends it."""
    words = [*shlex.split(node.line, comments=True), "--name", "laptop", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(words, cwd=folder, env=env, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        assert b"takes tasks" in process.stderr.readline()
        # Names, numbers and folders are others here.
        for shown in node.shown[1:]:
            assert process.stderr.readline().decode().split()[0] == shown.split()[0]
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.terminate()
        process.wait(60)
        process.stderr.close()


def run(typed: list[Typed], folder: Path, env: dict[str, str]) -> list[tuple[str, int]]:
    """What each line showed, and how it ended."""
    script = MARKING + "".join(f"{one.line}\nmark {number}\n" for number, one in enumerate(typed))
    ran = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    pieces = MARK.split(ran.stdout)
    return [(pieces[place], int(pieces[place + 2])) for place in range(0, len(pieces) - 1, 3)]


def even(lines: list[str]) -> list[str]:
    """Lines as far as they are the same each time; an id that stands alone is."""
    return [line if line.isdigit() else AGE.sub("0s", " ".join(line.split())) for line in lines if line.strip()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_says_to_type_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    typed, env, port = read_typed(page), prepare(page, tmp_path), find_port()
    (node,) = [one for one in typed if one.line.startswith("ganger up")]
    lines = [one._replace(line=one.line.replace(PORT, f"localhost:{port}")) for one in typed if one is not node]

    with started(node, tmp_path, env, port):
        seen = run(lines, tmp_path, env)

    for number, (one, (shown, code)) in enumerate(zip(lines, seen, strict=True)):
        asked = number + 1 < len(lines) and lines[number + 1].line == "echo $?"
        assert code == 0 or asked, (one.line, shown)
        assert even(shown.splitlines()) == even(one.shown) or not one.shown, one.line


def test_every_tutorial_is_run() -> None:
    silent = {"first-tasks.md"}

    assert {page.name for page in ROOT.glob("docs/tutorial/*.md")} - {page.name for page in PAGES} == silent
