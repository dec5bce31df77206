"""The page of the protocol says what is so."""

import asyncio
import re
from pathlib import Path

from ganger.wire.disbatch.params import OPTIONS
from tests.protocol.disbatch.harness import serve

PAGE = Path(__file__).parents[3] / "docs" / "protocols" / "disbatch.md"


def test_every_address_is_on_the_page() -> None:
    async def tell() -> None:
        page = PAGE.read_text()
        async with serve("memory:") as site:
            rows = [row for row in site.server.service.door.table.rows if row.path.startswith("/disbatch")]
            assert len(rows) > 10
            for row in rows:
                assert f"| `{row.method} {row.path}` | `{row.need.value}` |" in page, row.path

    asyncio.run(tell())


def test_every_option_is_on_the_page() -> None:
    assert set(re.findall(r"^\| `(\.\w+)` \|", PAGE.read_text(), re.MULTILINE)) == OPTIONS


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)

    async def tell() -> None:
        async with serve(f"sqlite:{tmp_path / 'ganger.db'}") as site:
            script_here = script.replace("http://127.0.0.1:8470", site.server.url).replace("curl", "curl -sf")
            process = await asyncio.create_subprocess_exec(
                "bash", "-ec", script_here, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
            )
            said, _ = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 0, said
            assert said.count(b'"status":-2') == 2

    asyncio.run(tell())
