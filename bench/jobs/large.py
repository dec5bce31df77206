"""One large job up, to a worker, and its result back and down again, beside the same bytes at a plain file server."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.contender import python
from bench.http.load import Target
from bench.http.servers import run_ganger
from bench.jobs.crew import write_frame
from bench.place import ROOT
from ganger.wire.websocket.frames import Opcode, encode_head

BLOCK = 1 << 20
_TIMES = 4
"""So often all of it goes over a wire: up, to the worker, back, down."""

_STOP = 15.0
_PATIENCE = 600.0
_FILLING = hashlib.shake_128(b"filling").digest(BLOCK - 8)
_NO_MASK = b"\0\0\0\0"
_SHORT, _LONG = 126, 127


def make_blocks(size: int) -> Iterator[bytes]:
    """Content of that size in which no two blocks are alike."""
    for number in range(size // BLOCK):
        yield number.to_bytes(8, "big") + _FILLING


def hash_blocks(size: int) -> str:
    digest = hashlib.sha256()
    for block in make_blocks(size):
        digest.update(block)
    return digest.hexdigest()


def carry(folder: Path, *, size: int, check: bool = False) -> tuple[float, float]:
    """Megabytes a second through the server, and by how many megabytes it grew; with a check that they are the same."""
    with run_ganger(folder) as running:
        before = psutil.Process(running.pid).memory_info().rss
        began = time.perf_counter()
        _upload(running.target, "POST", "/api/jobs/submit?priority=batch&key=large", size)
        given = _work(running.target, size, check)
        got = _download(running.target, "/api/jobs/large/result?wait=60", check)
        took = time.perf_counter() - began
        if check and {given, got} != {hash_blocks(size)}:
            raise AssertionError("what came is not what was sent")
        return _TIMES * size / took / 1e6, (_read_peak(running.pid) - before) / 1e6


def copy_files(folder: Path, *, size: int) -> float:
    """Megabytes a second of the plain server, the same bytes the same ways."""
    with _run_plain(folder) as target:
        began = time.perf_counter()
        for name in ("/payload", "/result"):
            _upload(target, "PUT", name, size)
            _download(target, name, False)
        return _TIMES * size / (time.perf_counter() - began) / 1e6


def _read_peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _upload(target: Target, method: str, path: str, size: int) -> None:
    with _dial(target) as line:
        line.sendall(_write_head(target, method, path, f"content-length: {size}\r\n"))
        for block in make_blocks(size):
            line.sendall(block)
        head, _ = _read_head(line)
        if head.split()[1] not in (b"200", b"201"):
            raise AssertionError(head)


def _download(target: Target, path: str, check: bool) -> str | None:
    with _dial(target) as line:
        line.sendall(_write_head(target, "GET", path, ""))
        head, rest = _read_head(line)
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        digest = hashlib.sha256(rest) if check else None
        _drain(line, size - len(rest), None if digest is None else digest.update)
        return None if digest is None else digest.hexdigest()


def _work(target: Target, size: int, check: bool) -> str | None:
    """Take the job over a websocket, and send the same content back as its result."""
    with _dial(target) as line:
        line.sendall(_write_head(target, "GET", "/api/worker", _UPGRADE))
        _, rest = _read_head(line)
        frames = _Frames(line, rest)
        hello = {"code": 0, "name": "bench", "id": "bench", "token": target.token}
        line.sendall(write_frame(Opcode.TEXT, json.dumps(hello).encode()))
        line.sendall(write_frame(Opcode.TEXT, b'{"code": 1, "status": 1}'))
        digest = hashlib.sha256() if check else None
        frames.take_binary(None if digest is None else digest.update)
        _give(line, size)
        return None if digest is None else digest.hexdigest()


def _give(line: socket.socket, size: int) -> None:
    last, opcode = size // BLOCK - 1, Opcode.BINARY
    for number, block in enumerate(make_blocks(size)):
        head = bytearray(encode_head(opcode, len(block), fin=number == last))
        head[1] |= 0x80
        # A mask of nothing: what the server does with it costs the same.
        line.sendall(bytes(head) + _NO_MASK)
        line.sendall(block)
        opcode = Opcode.CONTINUATION
    # The result is safe when the server asks for the status again.
    _Frames(line, b"").take_text()


_UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


class _Frames:
    """Reads what a server sends, which masks nothing."""

    def __init__(self, line: socket.socket, rest: bytes) -> None:
        self._line = line
        self._held = bytearray(rest)

    def take_binary(self, eat: Callable[[bytes], object] | None) -> None:
        """A binary message to its end; whatever comes before it is passed over."""
        while True:
            first, length = self._take_head()
            is_binary = first & 0x0F in (Opcode.BINARY, Opcode.CONTINUATION)
            self._eat(length, eat if is_binary else None)
            if is_binary and first & 0x80:
                return

    def take_text(self) -> None:
        while True:
            first, length = self._take_head()
            self._eat(length, None)
            if first & 0x0F == Opcode.TEXT:
                return

    def _take_head(self) -> tuple[int, int]:
        self._fill(2)
        first, length = self._held[0], self._held[1]
        more = 0 if length < _SHORT else 2 if length < _LONG else 8
        self._fill(2 + more)
        if more:
            length = int.from_bytes(self._held[2 : 2 + more], "big")
        del self._held[: 2 + more]
        return first, length

    def _fill(self, size: int) -> None:
        while len(self._held) < size:
            self._held += _receive(self._line, size - len(self._held))

    def _eat(self, length: int, eat: Callable[[bytes], object] | None) -> None:
        part = bytes(self._held[:length])
        del self._held[:length]
        if eat is not None:
            eat(part)
        _drain(self._line, length - len(part), eat)


def _drain(line: socket.socket, size: int, eat: Callable[[bytes], object] | None) -> None:
    while size:
        part = _receive(line, min(size, BLOCK))
        size -= len(part)
        if eat is not None:
            eat(part)


def _receive(line: socket.socket, most: int) -> bytes:
    part = line.recv(most)
    if not part:
        raise EOFError("the server closed the connection")
    return part


def _read_head(line: socket.socket) -> tuple[bytes, bytes]:
    """The head of an answer, and what came behind it."""
    held = b""
    while b"\r\n\r\n" not in held:
        held += _receive(line, 1 << 14)
    head, _, rest = held.partition(b"\r\n\r\n")
    return head, rest


def _write_head(target: Target, method: str, path: str, more: str) -> bytes:
    lines = f"{method} {path} HTTP/1.1\r\nhost: {target.host}\r\nauthorization: Bearer {target.token}\r\n"
    return f"{lines}{more}\r\n".encode()


@contextmanager
def _dial(target: Target) -> Iterator[socket.socket]:
    with socket.create_connection((target.host, target.port), timeout=_PATIENCE) as line:
        yield line


@contextmanager
def _run_plain(folder: Path) -> Iterator[Target]:
    process = subprocess.Popen(python("bench.jobs.plain", str(folder)), stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        yield Target("127.0.0.1", int(process.stdout.readline()))
    finally:
        process.terminate()
        process.communicate(timeout=_STOP)
