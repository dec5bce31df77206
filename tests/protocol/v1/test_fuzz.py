"""Generated requests: whatever is asked, the answer is one that is documented, and never an error of the server."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest

from tests.protocol.v1.harness import PATIENCE, Site, command, serve

WORDS = (
    "", "0", "1", "2", "3", "-1", "999", "9" * 18, "9" * 19, "9" * 30, "x", "root", "@a", "true", "a,b", "1,2", ",",
    "%", "running", "incipient,odd", "type,parent", "command", "default", "stdout", "spec", "as:k", "out:x", "k", "a/b",
    "ä", "\x00", "\n", "'", "null", "k" * 300, "1e9", "٣", "result", "args",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**40, 2**63, 1.5, "", "x", "root", "@a", "1", "command", [], {}, [1], ["1"], {"a": 1},
    "\x00", "é", [{"id": "1", "on": "odd"}], {"id": "1"}, "9" * 30, [None], "return", "any",
)  # fmt: skip
FIELDS = (
    "type", "parent", "parents", "ref", "queue", "priority", "delay", "join", "key", "on_conflict", "description",
    "retries", "timeout", "group", "limit_key", "requires", "open_group", "due", "odd",
)  # fmt: skip
KEYS = ("command", "args", "cwd", "env", "stdin", "merge", "limits", "grace", "path", "probe", "params", "payload", "k")
TYPES = (
    "command",
    "shell command",
    "shell",
    "function",
    "condition",
    "group",
    "payload",
    "plugin:x",
    "plugin:",
    "odd",
    5,
)


class Generator:
    """Requests from a seed."""

    def __init__(self, seed: int, document: Any) -> None:
        self._dice = random.Random(seed)
        self._operations = [
            (method, path, told) for path, all in document["paths"].items() for method, told in all.items()
        ]

    def draw(self) -> tuple[str, str, bytes | None]:
        dice = self._dice
        method, path, told = dice.choice(self._operations)
        for one in told["parameters"]:
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", quote(dice.choice(WORDS) or "1", safe=""))
        known = [one["name"] for one in told["parameters"] if one["in"] == "query"]
        chosen = [name for name in [*known, "odd"] if dice.random() < (0.4 if name != "odd" else 0.03)]
        query = urlencode({name: dice.choice(WORDS) for name in chosen}, errors="surrogatepass")
        if dice.random() < 0.05:
            method = dice.choice(["get", "post", "put", "patch", "delete", "options", "head"])
        return method.upper(), f"{path}?{query}" if query else path, self._body(told)

    def _body(self, told: Any) -> bytes | None:
        dice = self._dice
        if "requestBody" not in told and dice.random() < 0.95:
            return None
        if dice.random() < 0.1:
            return dice.choice([b"", b"{", b"[[[[", b"\xff", b"nul", b'{"value": 1e999}', b'"\\ud800"'])
        shapes: list[Callable[[], Any]] = [self._node, self._patch, self._value, self._nodes]
        return json.dumps(dice.choice(shapes)()).encode()

    def _nodes(self) -> Any:
        return [self._node(), self._node()]

    def _node(self) -> Any:
        kind = self._dice.choice(TYPES)
        return {"metadata": {"type": kind, **self._some(FIELDS[1:], 0.12)}, "data": self._some(KEYS, 0.3)}

    def _patch(self) -> Any:
        return {"metadata": self._some(FIELDS, 0.2), "data": self._some(KEYS, 0.2)}

    def _value(self) -> Any:
        encoding = self._dice.choice([None, None, "base64", "json", "text", 5])
        return {"value": self._dice.choice(VALUES), "encoding": encoding}

    def _some(self, names: tuple[str, ...], chance: float) -> dict[str, Any]:
        return {name: self._dice.choice(VALUES) for name in names if self._dice.random() < chance}


async def _ask(site: Site, method: str, path: str, body: bytes | None) -> tuple[int, str]:
    """The status and the type of an answer; one that does not come within a moment waits for something."""
    patience = 0.3 if "new=" in path or "/wait" in path else PATIENCE
    try:
        async with site.client.stream(method, path, content=body, timeout=patience) as reply:
            return reply.status_code, reply.headers.get("content-type", "")
    except httpx2.ReadTimeout:
        return 0, ""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generated_requests_get_documented_answers(seed: int) -> None:
    async def tell() -> None:
        async with serve() as site:
            await site.add(command("echo", "x", ref="a"), command(parent="@a"), command())
            generator = Generator(seed, await site.get("/openapi.json"))
            seen: dict[int, int] = {}
            for _ in range(400):
                method, path, body = generator.draw()
                status, kind = await _ask(site, method, path, body)
                seen[status] = seen.get(status, 0) + 1
                assert status < 500, (method, path, body)
                assert status < 400 or method == "HEAD" or kind == "application/problem+json", (method, path)
            assert seen[400] > 50
            assert seen[200] > 20
            assert await site.get("/health/ready") == {"ready": True}

    asyncio.run(tell())
