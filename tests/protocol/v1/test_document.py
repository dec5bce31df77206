"""The page about `/v1`: its examples run as they are written, and it names every address."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.v1.harness import Site, list_own_rows, story

PAGE = Path(__file__).parents[3] / "docs" / "protocols" / "v1.md"
GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
_SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server without a node, as a process of its own."""
    command = [*GANGER, "server", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = re.match(r"serving (http://\S+)/v1/nodes", process.stderr.readline())
        assert told is not None
        yield told[1]
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stderr.close()


@pytest.mark.slow
def test_the_examples_run_as_they_are_written(tmp_path: Path, url: str) -> None:
    examples = "\n".join(_SHELL.findall(PAGE.read_text()))
    assert "URL=http://127.0.0.1:8470" in examples
    script = tmp_path / "examples.sh"
    script.write_text(examples.replace("http://127.0.0.1:8470", url).replace("ganger token", "$GANGER token"))
    told = tmp_path / "ganger"
    told.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from ganger.cli.main import main; main()" "$@"\n')
    told.chmod(0o755)
    environment = {**os.environ, "GANGER": str(told)}

    ran = subprocess.run(
        ["bash", "-euo", "pipefail", script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert '"id":"1","type":"command","parent":"root"' in ran.stdout
    assert '"state":"cancelled"' in ran.stdout
    assert "event: submitted" in ran.stdout


@story
async def test_every_address_is_documented_with_its_scope(site: Site) -> None:
    page = PAGE.read_text()
    for route in list_own_rows(site):
        scope = "none" if route.need == "open" else f"`{route.need}`"
        assert f"| `{route.method} {route.path}` | {scope} |" in page, route
