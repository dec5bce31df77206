"""Who may do what: the table of routes against tokens with and without each scope."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from ganger.assembly.embedded import open_engine
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.assembly.tokens import TokenFile
from ganger.core.errors import BadInput, Conflict
from ganger.faces.http.grants import Need
from ganger.faces.http.limits import PLAIN_LIMITS
from ganger.faces.http.sockets import WEBSOCKET
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.protocol.v1.harness import Site, command, serve, story, story_in

SCOPES = {Need.READ: "read", Need.SUBMIT: "submit", Need.CANCEL: "cancel", Need.ADMIN: "admin", Need.WORK: "work"}


def rows(site: Site) -> Iterator[tuple[str, str, Need]]:
    for route in site.server.service.door.table.rows:
        yield route.method, route.path.replace("{id}", "1").replace("{key}", "k"), route.need


@story
async def test_every_row_of_the_table_needs_a_token_with_its_scope(site: Site) -> None:
    tokens = {need: site.token(scope, name=f"for {scope}") for need, scope in SCOPES.items()}
    seen = 0
    for method, path, need in rows(site):
        for held, header in tokens.items():
            status = await knock(site, method, path, header)
            allowed = need is Need.OPEN or held in (need, Need.ADMIN)
            assert (status not in (401, 403)) == allowed, (method, path, held)
            seen += 1
        refused = await knock(site, method, path, {"authorization": ""}) in (401, 429)
        assert refused == (need is not Need.OPEN), path

    assert seen >= 15 * len(SCOPES)


async def knock(site: Site, method: str, path: str, header: dict[str, str]) -> int:
    """The status alone: some answers never end."""
    if method == WEBSOCKET:
        return await knock_socket(site, path, header)
    query = "?id=999" if "scheduler" in path and "running" not in path else ""
    async with site.client.stream(method, path + query, headers=header) as reply:
        return reply.status_code


async def knock_socket(site: Site, path: str, header: dict[str, str]) -> int:
    try:
        async with connect(site.server.url.replace("http", "ws", 1) + path, additional_headers=header):
            return 101
    except InvalidStatus as error:
        return error.response.status_code


@story
async def test_only_health_and_the_description_ask_for_no_token(site: Site) -> None:
    free = {path for _, path, need in rows(site) if need is Need.OPEN}

    assert free == {"/", "/health/live", "/health/ready", "/openapi.json", "/docs"}


@story
async def test_a_get_changes_nothing(site: Site) -> None:
    looking = ("GET", WEBSOCKET)
    assert {need for method, _, need in rows(site) if method in looking} <= {Need.OPEN, Need.READ}
    assert not {need for method, _, need in rows(site) if method not in looking} & {Need.OPEN, Need.READ}


@story
async def test_a_wrong_token_is_told_how_to_send_one(site: Site) -> None:
    for header in ("", "Bearer", "Bearer x", "Basic YTpi", f"Bearer {'x' * 5000}"):
        reply = await site.ask("GET", "/v1/nodes", headers={"authorization": header})
        assert (reply.status_code, reply.json()["code"]) == (401, "not_authenticated"), header
        assert reply.headers["www-authenticate"].startswith("Bearer")


@story
async def test_wrong_tokens_are_looked_at_only_so_often(site: Site) -> None:
    statuses = {(await knock(site, "GET", "/v1/nodes", {"authorization": "Bearer x"})) for _ in range(60)}

    assert statuses == {401, 429}
    assert await site.get("/v1/nodes") == []


@story
async def test_a_token_may_ask_only_so_often_and_is_told_when_to_come_back(site: Site) -> None:
    made = site.server.tokens.add("slow", ["read"], rate=0.1)
    header = {"authorization": f"Bearer {made.token}"}
    assert (await site.ask("GET", "/v1/nodes", headers=header)).status_code == 200
    refused = await site.ask("GET", "/v1/nodes", headers=header)

    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert 8 <= int(refused.headers["retry-after"]) <= 10
    assert await site.get("/v1/nodes") == []


def test_the_server_bounds_tokens_that_have_no_rate_of_their_own() -> None:
    async def tell() -> None:
        async with serve(limits=PLAIN_LIMITS._replace(rate=2)) as site:
            free = {"authorization": f"Bearer {site.server.tokens.add('free', ['read'], rate=0).token}"}
            statuses = [(await site.ask("GET", "/v1/nodes")).status_code for _ in range(4)]
            assert (statuses[0], 429 in statuses) == (200, True)
            assert {(await site.ask("GET", "/v1/nodes", headers=free)).status_code for _ in range(10)} == {200}

    asyncio.run(tell())


@story
async def test_a_token_for_one_queue_submits_and_changes_nothing_elsewhere(site: Site) -> None:
    await site.engine.queues.create("mine", by="somebody")
    (foreign,) = await site.add(command())
    header = site.token("submit:mine")

    reply = await site.ask("POST", "/v1/nodes", command(queue="mine"), headers=header)
    assert reply.status_code == 201
    own = reply.json()[0]["id"]
    assert (await site.ask("PUT", f"/v1/nodes/{own}/data/k", {"value": 1}, headers=header)).status_code == 200
    problem = await site.refuse(403, "POST", "/v1/nodes", [command(queue="mine"), command()], headers=header)
    assert problem["fields"]["scope"] == "submit:default"
    await site.refuse(403, "PUT", f"/v1/nodes/{foreign}/data/k", {"value": 1}, headers=header)
    await site.refuse(403, "PATCH", f"/v1/nodes/{foreign}", {"metadata": {"priority": 1}}, headers=header)
    await site.refuse(403, "GET", "/v1/nodes", headers=header)


@story
async def test_an_expired_token_opens_nothing(site: Site) -> None:
    made = site.server.tokens.add("brief", ["read"], 0)

    await site.refuse(401, "GET", "/v1/nodes", headers={"authorization": f"Bearer {made.token}"})


@story
async def test_a_revoked_token_ends_what_is_open(site: Site) -> None:
    header = site.token("read", name="guest")
    async with site.client.stream("GET", "/v1/events", headers=header) as reply:
        lines = reply.aiter_lines()
        await anext(lines)
        site.server.tokens.remove("guest")
        assert [line async for line in lines] == [""]
    await site.refuse(401, "GET", "/v1/nodes", headers=header)


@story
async def test_a_token_of_another_process_is_known_at_once(site: Site) -> None:
    other = TokenFile(site.server.tokens.path, SystemClock(), SystemEntropy())
    header = {"authorization": f"Bearer {other.add('late', ['read']).token}"}

    assert (await site.ask("GET", "/v1/nodes", headers=header)).status_code == 200


@story
async def test_a_request_that_names_another_host_is_refused(site: Site) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost.evil"):
        await site.refuse(403, "GET", "/v1/nodes", headers={"host": host})
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:5"):
        assert (await site.ask("GET", "/v1/nodes", headers={"host": host})).status_code == 200


@story
async def test_who_did_what_is_in_the_audit_log(site: Site) -> None:
    (one,) = await site.add(command())
    await site.ask("DELETE", f"/v1/nodes/{one}")

    lines = await site.engine.store.audit(0)  # type: ignore[arg-type]

    assert lines[-1].who == "token admin"


def test_the_first_start_writes_a_token_for_its_owner_alone(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site:
            assert site.server.made_admin
            for path in (site.server.tokens.path, site.server.tokens.admin_path):
                assert path.parent == tmp_path
                assert path.stat().st_mode & 0o777 == 0o600
            token = site.server.tokens.admin_path.read_text().strip()
            assert token not in site.server.tokens.path.read_text()
        async with serve(tmp_path) as again:
            assert not again.server.made_admin
            assert again.server.tokens.admin_path.read_text().strip() == token
            assert await again.get("/v1/nodes") == []

    asyncio.run(tell())


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_another_address_without_tls_is_refused_unless_told_so(listen: str) -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            with pytest.raises(BadInput, match="insecure"):
                async with open_server(Settings(store="memory:", listen=listen), engine):
                    pass

    asyncio.run(tell())


def test_a_port_that_is_taken_is_told() -> None:
    async def tell() -> None:
        async with serve() as site:
            taken = site.server.url.removeprefix("http://")
            with pytest.raises(Conflict, match="cannot listen"):
                async with open_server(Settings(store="memory:", listen=taken), site.engine):
                    pass

    asyncio.run(tell())


@story_in
async def test_a_token_that_another_process_removes_is_refused_from_the_next_request_on(
    site: Site, folder: Path
) -> None:
    elsewhere = TokenFile(site.server.tokens.path, SystemClock(), SystemEntropy())
    for n in range(20):
        header = {"authorization": f"Bearer {elsewhere.add(f'brief {n}', ['submit', 'read']).token}"}
        assert (await site.ask("GET", "/v1/nodes", headers=header)).status_code == 200
        assert (await site.ask("POST", "/v1/nodes", command(), headers=header)).status_code == 201
        elsewhere.remove(f"brief {n}")
        method, body = ("GET", None) if n % 2 else ("POST", command())
        assert (await site.ask(method, "/v1/nodes", body, headers=header)).status_code == 401


@story_in
async def test_a_server_that_cannot_read_its_tokens_lets_nobody_in(site: Site, folder: Path) -> None:
    site.server.tokens.path.write_bytes(b"no longer JSON")

    for method, body in (("GET", None), ("POST", command())):
        assert (await site.ask(method, "/v1/nodes", body)).status_code == 500
