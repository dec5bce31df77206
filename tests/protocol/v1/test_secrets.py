"""A secret is put in by the node: no answer of the API, and no file of the store, ever has it."""

import asyncio
from pathlib import Path

from ganger.assembly.secrets import SecretFolder
from tests.protocol.doors import find_own
from tests.protocol.v1.harness import Site, serve

VALUE = "hunter2-is-not-shown"


def find_secrets(folder: Path) -> Path:
    own = find_own(folder).database
    return own.with_name(f"{own.name}-secrets")


def list_bytes(folder: Path) -> bytes:
    kept = find_secrets(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(kept)]
    return b"".join(path.read_bytes() for path in files)


async def run(site: Site, script: str, secret: str) -> str:
    (node,) = await site.add(
        {"metadata": {"type": "shell command"}, "data": {"command": script, "env": {"PASSWORD": f"secret:{secret}"}}}
    )
    await site.get(f"/v1/scheduler/wait?id={node}")
    return node


def test_a_value_is_used_and_is_nowhere_to_be_read(tmp_path: Path) -> None:
    async def tell() -> None:
        SecretFolder(find_secrets(tmp_path)).put("db", VALUE)
        async with serve(tmp_path, node=True) as site:
            node = await run(site, 'echo "${#PASSWORD} $PASSWORD"; exit 3', "db")
            told = (await site.ask("GET", f"/v1/nodes/{node}")).text
            logs = (await site.ask("GET", f"/v1/nodes/{node}/logs")).text
            assert logs == f"{len(VALUE)} ***\n"
            assert '"PASSWORD":"secret:db"' in told
            assert VALUE not in told
        assert VALUE.encode() not in list_bytes(tmp_path)

    asyncio.run(tell())


def test_a_missing_one_fails_the_node_with_the_reason(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path, node=True) as site:
            node = await run(site, "true", "none")
            said = (await site.get(f"/v1/nodes/{node}"))["metadata"]
            assert said["state"] == "failed"
            assert "no secret 'none'" in said["reason"]

    asyncio.run(tell())
