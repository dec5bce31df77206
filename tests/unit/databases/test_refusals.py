"""Places and files that are refused, each with an error of its own that says what to do."""

import asyncio
import os
import stat
import tempfile
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import (
    MigrationChanged,
    StoreError,
    StoreMissingFolder,
    StoreNotADatabase,
    StoreOnNetworkFilesystem,
    StoreReadOnly,
)
from ganger.databases.sqlite import LocalHost, Migration, load_migrations, load_queries
from ganger.databases.sqlite.place import Place, find_filesystem
from tests.unit.databases.counter import MIGRATIONS, Line, open_counter, opened, read_file


def refuse(path: Path, kind: type[Exception], **changes: object) -> str:
    async def scenario() -> None:
        shared = await open_counter(path, **changes)
        await shared.close()

    with pytest.raises(kind) as caught:
        asyncio.run(scenario())
    return str(caught.value)


def use(path: Path, **changes: object) -> int:
    async def scenario() -> int:
        async with opened(path, **changes) as shared:
            return int(await shared.call("submit", Line("ada", 1)))

    return asyncio.run(scenario())


class Mounted(LocalHost):
    def __init__(self, filesystem: str) -> None:
        self._filesystem = filesystem

    def filesystem(self, folder: Path) -> str:
        return self._filesystem


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert "make it first" in refuse(tmp_path / "none" / "c.db", StoreMissingFolder)


@pytest.mark.parametrize("filesystem", ["nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre"])
def test_a_network_filesystem_is_refused(tmp_path: Path, filesystem: str) -> None:
    message = refuse(tmp_path / "c.db", StoreOnNetworkFilesystem, host=Mounted(filesystem))
    assert filesystem in message
    assert "local disk" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "apfs", ""])
def test_a_local_filesystem_is_not(tmp_path: Path, filesystem: str) -> None:
    assert use(tmp_path / "c.db", host=Mounted(filesystem)) == 1


def test_a_file_that_is_not_a_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Not a database at all. " * 100)
    assert "name another file" in refuse(path, StoreNotADatabase)
    assert path.read_text().startswith("Not a database")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.db").mkdir()
    refuse(tmp_path / "c.db", StoreNotADatabase)


@pytest.mark.parametrize("mark", [0, 1234])
def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, mark: int) -> None:
    other = apsw.Connection(str(tmp_path / "c.db"))
    other.execute("CREATE TABLE theirs (a)")
    other.pragma("application_id", mark)
    other.close()
    assert "another program" in refuse(tmp_path / "c.db", StoreNotADatabase)
    tables = read_file(tmp_path / "c.db", lambda it: it.execute("SELECT name FROM sqlite_schema").fetchall())
    assert tables == [("theirs",)]


def test_the_file_of_another_application_of_ours_is_refused(tmp_path: Path) -> None:
    use(tmp_path / "c.db")
    refuse(tmp_path / "c.db", StoreNotADatabase, application="another")


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "c.db").touch()
    assert use(tmp_path / "c.db") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="LOUD SKIP: root may write read-only files, so this cannot be tried")
def test_a_read_only_file_or_folder_is_refused(tmp_path: Path) -> None:
    use(tmp_path / "c.db")
    (tmp_path / "c.db").chmod(0o400)
    assert "permissions" in refuse(tmp_path / "c.db", StoreReadOnly)
    (tmp_path / "c.db").chmod(0o600)
    tmp_path.chmod(0o500)
    refuse(tmp_path / "d.db", StoreReadOnly)
    tmp_path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_process_without_the_right_to_write_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        pid = os.fork()
        if pid == 0:
            os._exit(_try_as_nobody(Path(folder)))
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def _try_as_nobody(folder: Path) -> int:
    os.seteuid(65534)
    try:
        asyncio.run(open_counter(folder / "c.db"))
    except StoreReadOnly:
        return 0
    except BaseException:
        return 1
    return 2


def test_the_database_and_its_companions_are_for_this_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with opened(tmp_path / "c.db"):
            return [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in os.listdir(tmp_path)]

    before = os.umask(0)
    try:
        assert asyncio.run(scenario()) == [0o600] * 6
    finally:
        os.umask(before)


def test_a_path_too_long_for_a_socket_works_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)

    async def scenario() -> None:
        for name in ("c.db", f"{'long' * 50}.db"):
            async with opened(folder / name) as owner, opened(folder / name) as client:
                assert (owner.owns, client.owns) == (True, False)
                assert await client.call("submit", Line("ada", 1)) == 1

    asyncio.run(scenario())


def test_a_link_and_the_file_it_leads_to_are_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "c.db")

    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as owner, opened(tmp_path / "link.db") as client:
            assert await owner.call("submit", Line("ada", 1)) == 1
            assert await client.call("submit", Line("ada", 2)) == 2

    asyncio.run(scenario())


def test_the_filesystem_of_a_folder_is_that_of_its_innermost_mount() -> None:
    mounts = "\n".join(
        (
            "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
            "30 22 0:40 / /mnt/far rw - nfs4 server:/x rw",
            r"31 22 0:41 / /mnt/with\040space rw shared:1 - cifs //server/x rw",
            "32 30 0:42 / /mnt/far/near rw - tmpfs tmpfs rw",
        )
    )
    found = [
        find_filesystem(mounts, Path(path))
        for path in ("/srv/ada", "/mnt/far", "/mnt/far/a/b", "/mnt/farther", "/mnt/with space/a", "/mnt/far/near/x")
    ]
    assert found == ["ext4", "nfs4", "nfs4", "ext4", "cifs", "tmpfs"]


def test_the_machine_knows_the_filesystem_of_a_folder(tmp_path: Path) -> None:
    assert LocalHost().filesystem(Place.of(tmp_path).database)
    assert LocalHost().free(tmp_path) > 0


def test_migrations_run_once_and_later_ones_are_added(tmp_path: Path) -> None:
    async def version(migrations: tuple[Migration, ...]) -> object:
        async with opened(tmp_path / "c.db", migrations=migrations) as shared:
            return await shared.read(
                lambda it: (
                    it.pragma("user_version"),
                    it.execute("SELECT number, name FROM migration ORDER BY number").fetchall(),
                )
            )

    extended = (*MIGRATIONS, Migration(3, "more", "CREATE TABLE more (a); CREATE TABLE still_more (a);"))
    assert asyncio.run(version(MIGRATIONS)) == (2, [(1, "rows"), (2, "tally")])
    assert asyncio.run(version(MIGRATIONS)) == (2, [(1, "rows"), (2, "tally")])
    assert asyncio.run(version(extended)) == (3, [(1, "rows"), (2, "tally"), (3, "more")])
    # One who knows less, and may share the file, leaves the newer part alone.
    assert asyncio.run(version(MIGRATIONS)) == (3, [(1, "rows"), (2, "tally"), (3, "more")])


def test_a_migration_that_was_edited_after_it_ran_is_refused(tmp_path: Path) -> None:
    use(tmp_path / "c.db")
    edited = (MIGRATIONS[0], Migration(2, "tally", MIGRATIONS[1].sql + " -- a little different"))
    assert "undo the edit" in refuse(tmp_path / "c.db", MigrationChanged, migrations=edited)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    use(tmp_path / "c.db")
    broken = (*MIGRATIONS, Migration(3, "broken", "CREATE TABLE more (a); CREATE TABLE line (a);"))
    refuse(tmp_path / "c.db", StoreError, migrations=broken)
    assert use(tmp_path / "c.db") == 2


def test_migrations_and_queries_are_loaded_from_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shop" / "sql"
    folder.mkdir(parents=True)
    (tmp_path / "shop" / "__init__.py").touch()
    (folder / "0002_b.sql").write_text("SELECT 2;")
    (folder / "0001_a.sql").write_text("SELECT 1;")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_migrations("shop", "sql") == (Migration(1, "a", "SELECT 1;"), Migration(2, "b", "SELECT 2;"))
    assert load_queries("shop", "sql") == {"0001_a": "SELECT 1;", "0002_b": "SELECT 2;"}
    (folder / "0004_d.sql").touch()
    with pytest.raises(StoreError, match="without a gap"):
        load_migrations("shop", "sql")
    (folder / "four.sql").touch()
    with pytest.raises(StoreError, match="NNNN_name"):
        load_migrations("shop", "sql")


def test_a_setting_that_is_not_durable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganger.databases.sqlite.file._SYNCHRONOUS", "normal")
    assert "synchronous" in refuse(tmp_path / "c.db", StoreError)
