"""What strangers, full disks and lost answers do to versioned documents: a clear error, and nothing lost."""

import asyncio
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import apsw
import pytest

from ganger.assembly.coordination import find_documents, open_backend
from ganger.assembly.settings import Settings
from ganger.coordination.backend import Backend, Version
from ganger.coordination.backends import file as files
from ganger.coordination.backends.file import FileBackend
from ganger.coordination.backends.mongodb import COLLECTION
from ganger.coordination.backends.sqlite import SqliteBackend
from ganger.core.errors import (
    BadDocument,
    BadInput,
    ForkedHandle,
    StaleVersion,
    StoreClosed,
    StoreFull,
    StoreMissingFolder,
    StoreNotADatabase,
    StoreOnNetworkFilesystem,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from ganger.databases.sqlite import LocalHost, connecting
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.contracts.documents import LOCK, DocumentStand
from tests.servers.documents import PLACES, find_address, mark_servers, open_stand, run_stand
from tests.servers.mongo import MongoServer
from tests.servers.opensearch import OpenSearchServer
from tests.servers.postgres import PostgresServer

CLOCK, ENTROPY = SystemClock(), SystemEntropy()


class Networked(LocalHost):
    def filesystem(self, folder: Path) -> str:
        return "nfs4"


def test_a_folder_on_a_network_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(StoreOnNetworkFilesystem):
            asyncio.run(FileBackend.open(folder, CLOCK, ENTROPY, Networked()))

    assert not (tmp_path / "new").exists()


def test_a_folder_that_can_not_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreMissingFolder):
        asyncio.run(FileBackend.open(tmp_path / "none" / "documents", CLOCK, ENTROPY))
    with pytest.raises(StoreNotADatabase):
        asyncio.run(FileBackend.open(tmp_path / "file", CLOCK, ENTROPY))


def test_a_new_folder_is_private_and_one_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o775)
    for folder, mode in (("theirs", 0o775), ("new", 0o700)):
        asyncio.run(FileBackend.open(tmp_path / folder, CLOCK, ENTROPY))

        assert (tmp_path / folder).stat().st_mode & 0o777 == mode


def test_a_file_that_somebody_edited_is_named_and_left_alone(tmp_path: Path) -> None:
    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        await backend.write("lock/a", LOCK, None)
        await backend.write("lock/b", LOCK, None)
        file = tmp_path / "documents" / "lock%2Fa.json"
        for content in (b"", b"\xff\xfe", b"{}", b"[]\n" + file.read_bytes().splitlines()[1], b'{"a":1}\n{"name":1}'):
            file.write_bytes(content)

            with pytest.raises(BadDocument, match="lock/a"):
                await backend.read("lock/a")
            with pytest.raises(BadDocument):
                await backend.write("lock/a", LOCK, Version(1, 1))
            with pytest.raises(StaleVersion):
                await backend.write("lock/a", LOCK, None)
            assert [entry.name for entry in (await backend.list("lock/", [])).entries] == ["lock/b"]
            assert file.read_bytes() == content

    run_stand(f"file:{tmp_path / 'documents'}", check)


def test_a_file_under_a_wrong_name_is_another_document(tmp_path: Path) -> None:
    async def check(stand: DocumentStand) -> None:
        backend, folder = await stand.open(), tmp_path / "documents"
        await backend.write("lock/a", LOCK, None)
        shutil.copy(folder / "lock%2Fa.json", folder / "lock%2Fb.json")

        with pytest.raises(BadDocument, match="says that it is called 'lock/a'"):
            await backend.read("lock/b")

    run_stand(f"file:{tmp_path / 'documents'}", check)


def test_whoever_meets_a_folder_that_stays_locked_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.2)

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        version = (await backend.write("lock/a", LOCK, None)).version
        stopped = os.open(tmp_path / "documents", os.O_RDONLY)
        fcntl.flock(stopped, fcntl.LOCK_EX)

        with pytest.raises(StoreUnavailable, match="is it stopped"):
            await backend.write("lock/a", {}, version)
        assert (await backend.read("lock/a")).document == LOCK

        os.close(stopped)
        await backend.write("lock/a", {}, version)
        assert not list((tmp_path / "documents").glob("*.draft"))

    run_stand(f"file:{tmp_path / 'documents'}", check)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_and_leaves_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        version = (await backend.write("lock/a", LOCK, None)).version
        full = os.open("/dev/full", os.O_WRONLY)
        monkeypatch.setattr(files, "write_whole", lambda _, data: os.write(full, data))

        with pytest.raises(StoreFull):
            await backend.write("lock/a", {}, version)
        with pytest.raises(StoreFull):
            await backend.write("lock/b", {}, None)
        assert (await backend.read("lock/a")).document == LOCK
        assert not list((tmp_path / "documents").glob(".*json*"))

    run_stand(f"file:{tmp_path / 'documents'}", check)


@pytest.mark.parametrize("place", mark_servers(tuple(place for place in PLACES if place != "memory")))
def test_what_was_closed_is_closed(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        await backend.close()

        with pytest.raises((StoreClosed, StoreUnavailable)):
            await backend.read("lock/a")
        with pytest.raises((StoreClosed, StoreUnavailable)):
            await backend.write("lock/a", LOCK, None)

    run_stand(find_address(place, request, tmp_path), check)


def test_addresses_that_name_no_place_are_refused() -> None:
    for address in ("ftp://x/y", "sqlite:", "file:", "file://", "http://127.0.0.1:8470", "nonsense", ""):
        with pytest.raises(BadInput):
            find_documents(address)
    for address in ("elasticsearch+http://", "elasticsearch+http://host/UPPER", "elasticsearch+http://host/a/b"):
        with pytest.raises(BadInput):
            asyncio.run(open_once(address))


def test_the_password_of_an_address_is_not_shown() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        asyncio.run(open_once("elasticsearch+http://someone:hush@127.0.0.1:1/index"))

    assert "hush" not in str(caught.value)


async def open_once(address: str) -> None:
    async with open_backend(Settings(store=address), CLOCK, ENTROPY):
        pass


# SQLite


def test_a_sqlite_file_that_can_not_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreOnNetworkFilesystem):
        asyncio.run(SqliteBackend.open(tmp_path / "a.db", CLOCK, Networked()))
    with pytest.raises(StoreMissingFolder):
        asyncio.run(SqliteBackend.open(tmp_path / "none" / "a.db", CLOCK))
    with closing(apsw.Connection(str(tmp_path / "theirs.db"))) as theirs:
        theirs.execute("CREATE TABLE customer (name text)")
    with pytest.raises(StoreNotADatabase, match="another program"):
        asyncio.run(SqliteBackend.open(tmp_path / "theirs.db", CLOCK))
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 40)
    with pytest.raises(StoreNotADatabase):
        asyncio.run(SqliteBackend.open(tmp_path / "text", CLOCK))


def test_a_writer_that_is_stopped_in_its_transaction_is_told_to_others_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 200)

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        written = await backend.write("lock/a", LOCK, None)
        with closing(apsw.Connection(str(tmp_path / "tasks.db-coordination"))) as stopped:
            stopped.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await backend.write("lock/a", {}, written.version)
            assert (await backend.read("lock/a")).document == LOCK
            stopped.execute("ROLLBACK")
        await backend.write("lock/a", {}, written.version)

    run_stand(f"sqlite:{tmp_path / 'tasks.db'}", check)


def test_a_spoilt_body_in_sqlite_is_named_and_left_out_of_lists(tmp_path: Path) -> None:
    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        await backend.write("lock/a", LOCK, None)
        await backend.write("lock/b", LOCK, None)
        with closing(apsw.Connection(str(tmp_path / "tasks.db-coordination"))) as theirs:
            theirs.execute("UPDATE document SET body = 'spoilt' WHERE name = 'lock/a'")

        with pytest.raises(BadDocument, match="lock/a"):
            await backend.read("lock/a")
        assert [entry.name for entry in (await backend.list("lock/", ["expire"])).entries] == ["lock/b"]

    run_stand(f"sqlite:{tmp_path / 'tasks.db'}", check)


def test_a_handle_on_sqlite_is_not_used_by_a_forked_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        pid = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        with pytest.raises(ForkedHandle):
            await backend.read("lock/a")
        monkeypatch.undo()

    run_stand(f"sqlite:{tmp_path / 'tasks.db'}", check)


# PostgreSQL


def test_an_answer_of_postgres_that_is_lost_is_found_again(postgres_url: Callable[[], str]) -> None:
    async def check(stand: DocumentStand) -> None:
        backend: Any = await stand.open()
        version = (await backend.write("lock/a", LOCK, None)).version
        run = backend._database._run_at_once
        lost: list[bool] = []

        async def lose_the_first_answer(session: Any, work: Any, recall: Any) -> Any:
            async def work_and_lose(session: Any) -> Any:
                done = await work(session)
                if not lost:
                    lost.append(True)
                    raise ConnectionResetError
                return done

            return await run(session, work_and_lose, recall)

        backend._database._run_at_once = lose_the_first_answer
        written = await backend.write("lock/a", {"a": 1}, version)

        assert lost
        assert written.version == version._replace(number=version.number + 1)
        assert (await backend.read("lock/a")).document == {"a": 1}

    run_stand(postgres_url(), check)


def test_a_postgres_that_is_killed_forgets_nothing_and_is_used_again() -> None:
    server = PostgresServer()
    server.start()

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        written = await backend.write("lock/a", LOCK, None)
        await asyncio.to_thread(server.kill)
        reading = asyncio.ensure_future(backend.read("lock/a"))
        await asyncio.to_thread(server.start)

        assert (await reading)[:2] == (LOCK, written.version)

    try:
        run_stand(server.url("coordinated"), check)
    finally:
        server.stop()


# MongoDB


def test_a_document_of_mongo_without_a_version_is_named_and_left_alone(mongo_url: Callable[[], str]) -> None:
    from pymongo import MongoClient

    url = mongo_url()

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        for odd in (
            {},
            {"version": 7},
            {"version": {"term": "x", "number": 1}},
            {"version": {"term": 1.5, "number": 1}},
        ):
            with MongoClient[dict[str, Any]](url) as client:
                client.get_default_database()[COLLECTION].replace_one({"_id": "lock/a"}, {**LOCK, **odd}, upsert=True)

            with pytest.raises(BadDocument, match="lock/a"):
                await backend.read("lock/a")
            with pytest.raises(StaleVersion):
                await backend.write("lock/a", LOCK, None)
            assert not (await backend.list("lock/", [])).entries

    run_stand(url, check)


def test_a_mongo_that_is_gone_is_told_as_unknown(mongo_url: Callable[[], str]) -> None:
    server = MongoServer()
    server.start()

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        written = await backend.write("lock/a", LOCK, None)
        await asyncio.to_thread(server.kill)

        with pytest.raises(StoreUnavailable):
            await backend.write("lock/a", {}, written.version)
        await asyncio.to_thread(server.start)
        assert (await backend.read("lock/a"))[:2] == (LOCK, written.version)

    try:
        run_stand(server.url("coordinated"), check)
    finally:
        server.stop()


# Elasticsearch and OpenSearch


def ask(url: str, method: str, path: str, body: object = None) -> Any:
    place = url.removeprefix("elasticsearch+").rpartition("/")[0]
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{place}{path}", data, {"content-type": "application/json"}, method=method)
    with urlopen(request, timeout=60) as reply:
        return json.load(reply)


def test_an_index_that_was_replaced_is_refused(opensearch: OpenSearchServer) -> None:
    url = opensearch.fresh_url()
    index = url.rpartition("/")[2]

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        written = await backend.write("lock/a", LOCK, None)

        ask(url, "DELETE", f"/{index}-documents")
        for call in (backend.read("lock/a"), backend.write("lock/a", {}, written.version)):
            with pytest.raises(StoreReplaced):
                await call
        with pytest.raises(StoreReplaced):
            await backend.write("lock/a", {}, None)

        other = await stand.open()
        assert (await other.write("lock/a", {"holder": "b", "expire": 1}, None)).version == written.version
        with pytest.raises(StoreReplaced):
            await backend.read("lock/a")

    run_stand(url, check)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"number_of_shards": 2}, "several primary shards"),
        ({"number_of_shards": 1, "translog.durability": "async"}, "async"),
    ],
)
def test_an_index_that_can_not_keep_the_promise_is_refused(
    opensearch: OpenSearchServer, settings: dict[str, Any], said: str
) -> None:
    url = opensearch.fresh_url()
    index = url.rpartition("/")[2]
    ask(url, "PUT", f"/{index}-other", {"settings": {"index": settings}, "aliases": {index: {}}})

    with pytest.raises(StoreNotADatabase, match=said):
        asyncio.run(open_once(url))


def test_an_index_that_is_no_alias_is_refused(opensearch: OpenSearchServer) -> None:
    url = opensearch.fresh_url()
    ask(url, "PUT", f"/{url.rpartition('/')[2]}", {})

    with pytest.raises(StoreNotADatabase, match="alias"):
        asyncio.run(open_once(url))


def test_an_index_that_takes_no_writes_is_told_and_loses_nothing(opensearch: OpenSearchServer) -> None:
    url = opensearch.fresh_url()
    index = url.rpartition("/")[2]

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        written = await backend.write("lock/a", LOCK, None)
        for block, error in (("read_only_allow_delete", StoreFull), ("write", StoreReadOnly)):
            ask(url, "PUT", f"/{index}/_settings", {f"index.blocks.{block}": True})
            with pytest.raises(error):
                await backend.write("lock/a", {}, written.version)
            assert (await backend.read("lock/a"))[:2] == (LOCK, written.version)
            ask(url, "PUT", f"/{index}/_settings", {f"index.blocks.{block}": None})
        await backend.write("lock/a", {}, written.version)

    run_stand(url, check)


def test_an_opensearch_that_is_silent_is_told_as_unknown(
    opensearch: OpenSearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ganger.databases.elasticsearch import index

    if not isinstance(opensearch, OpenSearchServer):
        pytest.skip("NOT TESTED: somebody else's server is not stopped")
    monkeypatch.setattr(index.Index.open.__func__, "__defaults__", (1.0,))  # type: ignore[attr-defined]

    async def check(stand: DocumentStand) -> None:
        backend = await stand.open()
        written = await backend.write("lock/a", LOCK, None)
        opensearch.pause()
        try:
            with pytest.raises(StoreUnavailable):
                await backend.write("lock/a", {}, written.version)
        finally:
            opensearch.resume()
        assert (await settled(backend, written.version)).document in (LOCK, {})

    run_stand(opensearch.fresh_url(), check)


async def settled(backend: Backend, version: Version) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await backend.read("lock/a")
            except StoreUnavailable:
                continue


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b'{"version": {"number": "6.8.23"}}', "elasticsearch 6.8.23"),
        (b'{"version": {"number": "0.9", "distribution": "opensearch"}}', "opensearch 0.9"),
        (b'{"version": {"number": "9.1.0", "distribution": "somethingelse"}}', "somethingelse 9.1.0"),
        (b'{"version": {}}', "not as Elasticsearch"),
        (b"[1]", "not as Elasticsearch"),
        (b"<html>", "not as Elasticsearch"),
    ],
)
def test_a_server_of_another_kind_or_age_is_refused(reply: bytes, said: str) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(StoreNotADatabase, match=said):
            asyncio.run(open_once(f"elasticsearch+http://127.0.0.1:{server.server_port}/index"))
        server.shutdown()


def test_stands_share_what_they_open(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_stand("memory:") as stand:
            await (await stand.open()).write("lock/a", LOCK, None)
            assert (await (await stand.open()).read("lock/a")).document == LOCK

    asyncio.run(run())
