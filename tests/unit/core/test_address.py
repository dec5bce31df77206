"""An address without its password: whatever the password is, and wherever it stands."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.address import check_address, has_password, put_password, strip_password
from ganger.core.errors import BadInput

PLAIN = [
    "sqlite:ganger.db",
    "sqlite:/srv/me:here@work/tasks.db",
    "memory:",
    "ganger.db",
    "",
    "postgresql:///ganger",
    "postgresql://ada@db.example:5432/ganger?schema=ganger&passfile=/srv/ada.pgpass",
    "postgresql://ada@/ganger?host=/run/postgresql&application_name=me@here",
    "mongodb://ada@one:27017,two:27018/ganger?replicaSet=rs0",
    "mongodb+srv://cluster.example/ganger",
    "http://127.0.0.1:8470",
    "https://[::1]:8470",
    "s3://bucket/prefix",
]
SECRET = [
    ("postgresql://ada:PW@db/ganger", "postgresql://ada@db/ganger"),
    ("postgresql://:PW@db/ganger", "postgresql://db/ganger"),
    ("postgres://ada:PW@/ganger?host=/run&schema=x", "postgres://ada@/ganger?host=/run&schema=x"),
    ("postgresql://ada@db/ganger?password=PW&schema=x", "postgresql://ada@db/ganger?schema=x"),
    ("postgresql://ada@db/ganger?schema=x&sslpassword=PW", "postgresql://ada@db/ganger?schema=x"),
    ("postgresql://ada@db/ganger?password=PW", "postgresql://ada@db/ganger"),
    ("mongodb://ada:PW@one:1,two:2/ganger?tls=true", "mongodb://ada@one:1,two:2/ganger?tls=true"),
    ("mongodb://one/g?tlsCertificateKeyFilePassword=PW&tls=true", "mongodb://one/g?tls=true"),
    ("mongodb://one/g?authMechanismProperties=AWS_SESSION_TOKEN:PW", "mongodb://one/g"),
    ("http://ada:PW@host:8470", "http://ada@host:8470"),
    ("s3://key:PW@bucket", "s3://key@bucket"),
    ("nonsense://ada:PW@host", "nonsense://ada@host"),
    ("postgresql:ada:PW@host/db", "postgresql:ada@host/db"),
]
SCHEMES = ["postgresql", "mongodb", "https", "odd"]


@pytest.mark.parametrize("address", PLAIN)
def test_an_address_without_a_password_stays_as_it_is(address: str) -> None:
    assert strip_password(address) == address
    assert not has_password(address)


@pytest.mark.parametrize(("address", "stripped"), SECRET)
def test_a_password_is_taken_out_and_nothing_else(address: str, stripped: str) -> None:
    assert has_password(address)
    assert strip_password(address) == stripped


@given(st.sampled_from(SCHEMES), st.text(min_size=1, max_size=20), st.booleans())
def test_no_password_is_seen_whatever_it_is(scheme: str, middle: str, escaped: bool) -> None:
    password = f"Hidden{middle}Hidden"
    said = quote(password, safe="") if escaped else password

    for address in (f"{scheme}://ada:{said}@db.example/ganger", f"{scheme}://ada:{said}@db/g?tls=true&x=1"):
        assert "Hidden" not in strip_password(address)


@given(st.text(min_size=1, max_size=30))
def test_a_password_that_is_put_in_is_taken_out_again(password: str) -> None:
    for address in ("postgresql://ada@db/ganger?schema=x", "mongodb://ada@one:1,two:2/ganger"):
        whole = put_password(address, password)

        assert f"ada:{quote(password, safe='')}@" in whole
        assert strip_password(whole) == address
        assert put_password(whole, "another") == whole


def test_a_password_needs_a_user() -> None:
    with pytest.raises(BadInput):
        put_password("mongodb://host/ganger", "word")
    assert put_password("sqlite:ganger.db", "word") == "sqlite:ganger.db"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:PW/PW@db/ganger",
        "postgresql://ada:PW#PW@db/ganger",
        "postgresql://ada:PW?x=PW@db/ganger",
        "mongodb://ada:PW@PW@db/ganger",
        "mongodb://ada:PW@one:1,two:PW/ganger",
        "postgresql://ada@[::1]:PW/ganger",
        "postgresql://db:PW/ganger",
    ],
)
def test_an_address_that_no_driver_would_take_is_refused_without_being_shown(address: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_address(address)

    assert "PW" not in str(refused.value)


def test_an_address_that_is_in_order_is_taken() -> None:
    for address in (*PLAIN, *(address for address, _ in SECRET)):
        check_address(address)
