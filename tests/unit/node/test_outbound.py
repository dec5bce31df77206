"""Which addresses strangers may have us ask, and that nothing else is ever asked."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from ganger.core.errors import BadInput, NotAllowed
from ganger.node import outbound
from ganger.node.outbound import Answered, Rule, check_address, check_url, post

HERE = Rule(frozenset({"127.0.0.1", "localhost"}))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "255.255.255.255", "::127.0.0.1", "::ffff:0:127.0.0.1",
        "fec0::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(NotAllowed):
        check_address(address, Rule())


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_a_public_address_may_be_asked(address: str) -> None:
    check_address(address, Rule())


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "ftp://a.example/", "https://", "https:///x", "https://a b/", "https://u:p@a.example/",
        "https://u@a.example/", "https://a.example:99999/", "https://a.example:x/", "https://[::1", "https://ä.example/",
        "https://a.example/\r\nX: y", "https://a.example/" + "x" * 2000, "javascript:alert(1)", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_webhook_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url, HERE)


@pytest.mark.parametrize(
    "url", ["http://a.example/", "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:a00:1]/"]
)
def test_plain_http_and_private_addresses_need_a_word_of_the_operator(url: str) -> None:
    with pytest.raises(NotAllowed):
        check_url(url, Rule())


def test_a_host_may_be_trusted_at_one_port_alone() -> None:
    rule = Rule(frozenset({"hooks.internal:8080", "10.0.0.1"}))
    assert check_url("http://HOOKS.internal:8080/x", rule).port == 8080
    assert check_url("http://10.0.0.1:1/x", rule).port == 1
    with pytest.raises(NotAllowed):
        check_url("http://hooks.internal/x", rule)


def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_resolved() -> None:
    with pytest.raises(NotAllowed):
        asyncio.run(post("https://localhost/x", b"", {}, Rule()))


@asynccontextmanager
async def receiver(answer: bytes, heard: list[bytes]) -> AsyncIterator[str]:
    """A server on loopback that says this to everybody."""

    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.append(await reader.readuntil(b"body"))
            writer.write(answer)
            await writer.drain()
            await reader.read()
        except OSError:
            pass  # The client has seen enough, and left.
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
            over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/in?x=1"
        await asyncio.wait_for(over.wait(), 60)


def ask(answer: bytes, heard: list[bytes] | None = None) -> Answered:
    async def tell() -> Answered | Exception:
        async with receiver(answer, [] if heard is None else heard) as url:
            try:
                return await post(url, b"body", {"X-One": "1"}, HERE)
            except (OSError, ValueError) as error:
                return error

    told = asyncio.run(tell())
    if isinstance(told, Exception):
        raise told
    return told


def test_a_request_says_what_it_should() -> None:
    heard: list[bytes] = []
    assert ask(b"HTTP/1.1 204 No Content\r\n\r\n", heard).is_good
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /in?x=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert (b"Content-Length: 4" in head, b"X-One: 1" in head, body) == (True, True, b"body")


@pytest.mark.parametrize("status", [301, 302, 404, 500])
def test_only_a_2xx_is_good_and_no_redirect_is_followed(status: int) -> None:
    answer = b"HTTP/1.1 %d X\r\nLocation: http://127.0.0.1:1/\r\n\r\n" % status
    assert ask(answer) == Answered(status)


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n", b"HTTP/1.1\r\n", b"HTTP/1.1 abc\r\n", b"x" * 100_000])
def test_an_answer_that_is_none_is_an_error(answer: bytes) -> None:
    with pytest.raises((OSError, ValueError)):
        ask(answer)


def test_a_receiver_that_says_nothing_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "DEADLINE", 0.1)
    with pytest.raises(TimeoutError):
        ask(b"HTTP/1.1 2")


def test_nobody_there_is_an_error_of_the_system(unused_port: Callable[[], int]) -> None:
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(post(f"http://127.0.0.1:{unused_port()}/", b"", {}, HERE))


@pytest.fixture
def unused_port() -> Callable[[], int]:
    def find() -> int:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            return int(sock.getsockname()[1])

    return find
