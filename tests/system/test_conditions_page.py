"""The page about conditions, followed by somebody who does what it says."""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Final

from ganger.assembly.node import open_node
from ganger.node.options import NodeOptions
from tests.system.harness_node import PATIENCE, settings

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "conditions.md"
BLOCK: Final = re.compile(r"```(?P<form>\w+)\n(?P<text>.*?)```", re.DOTALL)


def prepare(folder: Path) -> str:
    """Write the files of the page, and a `ganger` that can be called; what is typed, as one script."""
    blocks = BLOCK.findall(PAGE.read_text())
    for form, text in blocks:
        if form in ("make", "toml", "yaml"):
            (folder / text.split("\n", 1)[0].removeprefix("# ")).write_text(text)
    shim = folder / "bin" / "ganger"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from ganger.cli.main import main; main()" "$@"\n')
    shim.chmod(0o755)
    return "set -eu\n" + "\n".join(text for form, text in blocks if form == "sh")


async def follow(folder: Path, script: str) -> tuple[str, int | None]:
    environment = os.environ | {"GANGER_STORE": settings(folder).store, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    typed = await asyncio.create_subprocess_exec(
        "bash", "-c", script, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=sys.stderr
    )
    said, _ = await typed.communicate()
    return said.decode(), typed.returncode


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    script = prepare(tmp_path)

    async def run() -> tuple[str, int | None]:
        async with asyncio.timeout(PATIENCE), open_node(settings(tmp_path), NodeOptions("ada", slots=2)):
            return await follow(tmp_path, script)

    said, code = asyncio.run(run())

    assert code == 0
    assert "\n".join(map(str, range(1, 11))) in said
    assert "good  (if build.result == 0)  <- build:finished, quiet" in said
    assert '"ready" -> "load" [label="then"];' in (tmp_path / "load.dot").read_text()
