"""A store that a database server has: how it is opened by its address, and where this machine keeps what is its own."""

import asyncio
from pathlib import Path

import pytest

from ganger.assembly.location import is_served, locate, locate_own
from ganger.assembly.registry import open_parts
from ganger.assembly.settings import Settings
from ganger.core.task import NewTask
from ganger.engine.store import Configure, QueueChange, Submission
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

pytestmark = pytest.mark.slow


def test_a_server_has_no_file_but_this_machine_has_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(store="postgresql://h/d")
    own = locate_own(settings)
    assert own is not None
    assert (is_served(settings), locate(settings)) == (True, None)
    assert (own.database, own.blobs) == (tmp_path / "ganger-postgres", tmp_path / "ganger-postgres-blobs")


def test_a_file_is_its_own_place() -> None:
    settings = Settings(store="sqlite:x.db")
    assert (is_served(settings), locate_own(settings)) == (False, locate(settings))


@pytest.mark.parametrize("server", ["postgres_url", "mongo_url"])
def test_its_address_opens_the_store(
    server: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(store=request.getfixturevalue(server)())

    async def story() -> list[int]:
        async with open_parts(settings, SystemClock(), SystemEntropy()) as parts:
            made = (await parts.store.configure(Configure(queue=QueueChange(name="q")))).queue
            assert made is not None
            assert (parts.store.capabilities.durable, parts.store.capabilities.shared) == (True, True)
            return list((await parts.store.submit(Submission((NewTask(made.id, "command"),)))).ids)

    assert asyncio.run(story()) == [1]
