"""Requests made from the description of the API by schemathesis: no 5xx, and no answer that the description denies."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.errors import SchemathesisError
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
REQUESTS = int(os.environ.get("GANGER_TEST_REQUESTS", "800"))
CHECKS: Final = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip
STREAM = "text/event-stream"
PATIENCE = 60.0
GLANCE = 0.25
"""Whoever asks for something to wait for is not waited for longer."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a server without a node, as a process of its own, and its token."""
    command = [*GANGER, "server", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = re.match(r"serving (http://\S+)/v1/nodes", process.stderr.readline())
        assert told is not None
        yield told[1], (tmp_path / "ganger.db-admin-token").read_text().strip()
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stderr.close()


@pytest.mark.slow
@pytest.mark.timeout(300 + REQUESTS // 10)
def test_requests_made_from_the_description_get_answers_that_it_describes(server: tuple[str, str]) -> None:
    url, token = server
    headers = {"authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_dict(httpx2.get(f"{url}/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    told = [operation for operation in operations if not _streams(operation)]
    assert len(told) > 25
    for node in ({"type": "command"}, {"type": "command", "parent": "1"}):
        made = {"metadata": node, "data": {"command": "true"}}
        assert httpx2.post(f"{url}/v1/nodes", json=made, headers=headers).status_code == 201
    found = [_find_fault(operation, url, headers, max(1, REQUESTS // len(told))) for operation in told]
    assert not any(found), "\n\n".join(filter(None, found))
    assert httpx2.get(f"{url}/health/ready").json() == {"ready": True}


def _streams(operation: Any) -> bool:
    return any(STREAM in told.get("content", {}) for told in operation.definition.raw["responses"].values())


def _find_fault(operation: Any, url: str, headers: dict[str, str], examples: int) -> str:
    """What is wrong with the answers of one operation; nothing if they are as described."""
    # Arrays with a type for each place, as nodes from afar get them, are not understood by schemathesis.
    chosen = CHECKS[:-1] if operation.path.startswith("/v1/engine") else CHECKS
    checks = list(HealthCheck)

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=checks)
    @given(case=operation.as_strategy())
    def probe(case: Any) -> None:
        waits = _may_wait(case)
        try:
            limit = GLANCE if waits else PATIENCE
            response = case.call(base_url=url, headers=headers, timeout=limit, allow_redirects=False)
        except requests.Timeout:
            assert waits, (case.method, case.formatted_path, case.query)
            return
        case.validate_response(response, checks=chosen)

    try:
        probe()
    except (AssertionError, FailureGroup, SchemathesisError) as fault:
        return f"{operation.label}: {fault}"
    return ""


def _may_wait(case: Any) -> bool:
    return bool(set(case.query or {}) & {"new", "id", "follow", "wait", "seconds"})
