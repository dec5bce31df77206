"""The file of tokens: hashes alone, whole or not at all, for its owner."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ganger.assembly.listening import Address, read_address
from ganger.assembly.tokens import TokenFile
from ganger.core.errors import BadInput, BadName, Conflict, Damage, FormatTooNew, NotFound
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock


def open_file(folder: Path, clock: FakeClock | None = None) -> TokenFile:
    return TokenFile(folder / "tasks.db-tokens", clock or FakeClock(), SystemEntropy())


def test_a_token_is_found_by_its_hash_and_never_kept(tmp_path: Path) -> None:
    made = open_file(tmp_path).add("me", ["read", "submit:q"])

    again = open_file(tmp_path)
    grant = again.find(made.token)
    assert grant is not None
    assert (grant.name, grant.scopes) == ("me", frozenset({"read", "submit:q"}))
    assert made.kept.hash == hashlib.sha256(made.token.encode()).hexdigest()
    assert made.token not in again.path.read_text()
    assert again.path.stat().st_mode & 0o777 == 0o600
    assert again.find("ganger_other") is None
    assert again.find("\ud800") is None


def test_a_token_ends_when_it_expires_or_is_removed(tmp_path: Path) -> None:
    clock = FakeClock()
    tokens = open_file(tmp_path, clock)
    brief, other = tokens.add("brief", ["read"], 1_000), tokens.add("other", ["read"])
    grant = tokens.find(brief.token)
    assert grant is not None
    clock.advance(1_000)

    assert tokens.find(brief.token) is None
    assert not tokens.holds(grant)
    tokens.remove(other.kept.id)
    assert tokens.find(other.token) is None
    with pytest.raises(NotFound):
        tokens.remove("other")


def test_a_token_that_another_process_removed_is_refused_from_the_next_question_on(tmp_path: Path) -> None:
    tokens, other = open_file(tmp_path), open_file(tmp_path)
    made = tokens.add("me", ["read"])
    grant = other.find(made.token)
    assert grant is not None

    tokens.remove("me")

    assert other.find(made.token) is None
    assert not other.holds(grant)


def test_tokens_that_cannot_be_read_open_nothing(tmp_path: Path) -> None:
    tokens = open_file(tmp_path)
    made = tokens.add("me", ["read"])
    tokens.path.write_bytes(b"no longer JSON")

    with pytest.raises(Damage):
        tokens.find(made.token)


def test_names_are_had_once_and_are_names(tmp_path: Path) -> None:
    tokens = open_file(tmp_path)
    tokens.add("me", ["read"])

    with pytest.raises(Conflict):
        tokens.add("me", ["admin"])
    with pytest.raises(BadName):
        tokens.add("a\nb", ["read"])
    with pytest.raises(BadInput):
        tokens.add("x", ["odd"])
    assert [kept.name for kept in tokens.all()] == ["me"]


def test_the_first_start_makes_one_administrator(tmp_path: Path) -> None:
    tokens = open_file(tmp_path)

    assert tokens.ensure_admin()
    assert not tokens.ensure_admin()
    assert not open_file(tmp_path).ensure_admin()
    assert tokens.admin_path.name == "tasks.db-admin-token"
    grant = tokens.find(tokens.admin_path.read_text().strip())
    assert grant is not None
    assert grant.scopes == frozenset({"admin"})


def test_an_administrator_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    tokens = open_file(tmp_path)
    tokens.ensure_admin()
    tokens.remove("admin")

    assert not open_file(tmp_path).ensure_admin()


def test_a_start_that_was_cut_off_is_made_good_by_the_next(tmp_path: Path) -> None:
    first = open_file(tmp_path)
    first.admin_path.write_text("ganger_of_nobody\n")
    Path(f"{first.path}~").write_text("half")

    assert first.ensure_admin()
    assert first.find(first.admin_path.read_text().strip()) is not None


def test_many_who_add_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: open_file(tmp_path).add(f"t{number}", ["read"]), range(40)))

    assert len(open_file(tmp_path).all()) == 40


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db-tokens"
    path.write_text("odd")
    with pytest.raises(Damage, match="no file of tokens"):
        open_file(tmp_path)
    path.write_text('{"version": 9}')
    with pytest.raises(FormatTooNew):
        open_file(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Address("127.0.0.1", 8470, fixed=False)),
        ("9000", Address("127.0.0.1", 9000, fixed=True)),
        ("0.0.0.0:80", Address("0.0.0.0", 80, fixed=True)),
        ("[::1]:80", Address("::1", 80, fixed=True)),
        ("localhost:0", Address("localhost", 0, fixed=True)),
    ],
)
def test_an_address_is_read(text: str, expected: Address) -> None:
    assert read_address(text) == expected
    assert expected.loopback == (expected.host != "0.0.0.0")


@pytest.mark.parametrize("text", ["x", "host:", ":80", "host:99999", "host:-1", "a:b:c"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_address(text)
