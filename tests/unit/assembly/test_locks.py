"""Locks from Python: in blocks, from threads and loops, on every kind of address."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ganger import Ganger
from ganger.coordination.fence import prepare_epochs, raise_epoch
from ganger.core.errors import BadInput, BadNumber, LockBusy, LockLost, StaleEpoch
from tests.servers.documents import SHARED, find_address, mark_servers


@pytest.mark.parametrize("place", mark_servers(SHARED))
def test_a_lock_is_held_in_a_block(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    address = find_address(place, request, tmp_path)
    with Ganger(address) as app, Ganger(address) as other:
        with app.lock("a", wait=0) as lock:
            assert lock.is_held
            assert lock.name == "lock/a"
            lock.check()
            first = lock.epoch
            with pytest.raises(LockBusy):
                other.lock("a", wait=0).acquire()
        with pytest.raises(BadInput):
            lock.check()
        with other.lock("a", wait=5) as again:
            assert again.epoch > first
            assert again.holder

        with app.semaphore("s", 2, wait=0), other.semaphore("s", 2, wait=0), pytest.raises(LockBusy):
            other.semaphore("s", 2, wait=0).acquire()
        with app.leader("l", wait=0) as leader:
            assert leader.name == "leader/l"


def test_threads_take_turns(tmp_path: Path) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def work(app: Ganger) -> None:
        nonlocal inside, most
        with app.lock("a"):
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1

    with Ganger(f"sqlite:{tmp_path / 'tasks.db'}") as app:
        threads = [threading.Thread(target=work, args=(app,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert most == 1


def test_it_works_from_async_code(tmp_path: Path) -> None:
    async def run() -> None:
        async with Ganger(f"file:{tmp_path / 'documents'}") as app:
            async with app.lock("a", wait=5) as lock:
                assert lock.is_held
                with pytest.raises(LockBusy):
                    await app.lock("a", wait="100ms").async_acquire()
            held = await app.semaphore("s", 3).async_acquire()
            await held.async_release()
            await held.async_release()

    asyncio.run(run())


def lose(folder: Path) -> None:
    for file in folder.glob("lock*.json"):
        file.write_text('{"holder":"thief","expire":9999999999999}\n["lock/a",7,7]\n')


def test_an_async_block_is_cancelled_when_its_lock_is_lost(tmp_path: Path) -> None:
    async def run() -> None:
        async with Ganger(f"file:{tmp_path / 'documents'}") as app:
            with pytest.raises(LockLost):
                await wait_for_ever(app)

    async def wait_for_ever(app: Ganger) -> None:
        async with app.lock("a", ttl="600ms"):
            lose(tmp_path / "documents")
            await asyncio.Event().wait()

    asyncio.run(run())


def test_an_async_block_that_somebody_cancels_stays_cancelled(tmp_path: Path) -> None:
    async def hold(app: Ganger, inside: asyncio.Event) -> None:
        async with app.lock("a"):
            inside.set()
            await asyncio.Event().wait()

    async def run() -> None:
        async with Ganger(f"file:{tmp_path / 'documents'}") as app:
            inside = asyncio.Event()
            holding = asyncio.create_task(hold(app, inside))
            await inside.wait()
            holding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holding
            await (await app.lock("a", wait=0).async_acquire()).async_release()

    asyncio.run(run())


def test_a_block_whose_lock_was_lost_says_so_at_its_end(tmp_path: Path) -> None:
    def use_up(app: Ganger) -> None:
        with app.lock("a", ttl="500ms") as lock:
            lose(tmp_path / "documents")
            while lock.is_held:
                continue

    with Ganger(f"file:{tmp_path / 'documents'}") as app, pytest.raises(LockLost):
        use_up(app)


def test_what_is_lost_is_not_taken_by_a_database_that_checks_the_epoch(tmp_path: Path) -> None:
    with Ganger(f"file:{tmp_path / 'documents'}") as app, closing(sqlite3.connect(tmp_path / "mine.db")) as mine:
        prepare_epochs(mine)
        with app.lock("a") as lock:
            old = lock.epoch
            raise_epoch(mine, lock.name, old)
        with app.lock("a") as lock:
            raise_epoch(mine, lock.name, lock.epoch)
            with pytest.raises(StaleEpoch):
                raise_epoch(mine, lock.name, old)


def test_an_app_that_is_closed_gives_its_locks_back(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'tasks.db'}"
    app = Ganger(address)
    app.lock("a").acquire()
    app.close()

    with Ganger(address) as other, other.lock("a", wait=0):
        pass


def test_the_setting_says_where_and_a_named_store_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("hush\n")
    lines = ['coordination = "file:agreed"', 'store_password_file = "password"', 'store = "sqlite:tasks.db"']
    (tmp_path / "ganger.toml").write_text("\n".join(lines))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with Ganger() as app, app.lock("a"):
        assert (tmp_path / "agreed" / "lock%2Fa.json").exists()
    with Ganger(f"file:{tmp_path / 'named'}") as app, app.lock("a"):
        assert (tmp_path / "named" / "lock%2Fa.json").exists()


def test_misuse_is_told(tmp_path: Path) -> None:
    with Ganger(f"file:{tmp_path / 'documents'}") as app:
        lock = app.lock("a")
        for use in (lambda: lock.epoch, lock.check, lambda: lock.name):
            with pytest.raises(BadInput):
                use()
        with lock, pytest.raises(BadInput):
            lock.acquire()
        with pytest.raises(BadNumber):
            app.lock("a", ttl=0.001).acquire()
        with pytest.raises(BadNumber):
            app.lock("a", wait="soon")
