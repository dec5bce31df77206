"""From any thread and any event loop to the one loop that has the transport.

A transport belongs to one event loop. The SDK is used from plain threads, from several loops, and from both at once, so
it has a loop of its own in a thread of its own, started at the first use. A blocking call waits for an answer from
there; an async call awaits one. When the caller is interrupted or cancelled, so is the call over there.

A forked child has no such thread, only a memory of it: it forgets the bridge and builds its own at the first use. The
thread is a daemon, so a program that never closes its app ends all the same; what was submitted is stored by then.
"""

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from ganger.client.transport import Transport
from ganger.core.errors import StoreClosed

R = TypeVar("R")
Work = Callable[[Transport], Coroutine[Any, Any, R]]
Shortcut = Callable[[Transport], R | None]
Opening = Callable[[], AbstractAsyncContextManager[Transport]]


class Bridge(Protocol):
    """How the SDK reaches its transport."""

    def run(self, work: Work[R], shortcut: Shortcut[R] | None = None) -> R:
        """Do it over there and block until it is done. Raises what it raises, StoreClosed if the bridge is closed.

        A shortcut does the same on the calling thread, which spares two changes of threads; it may find that it cannot.
        """
        ...

    async def arun(self, work: Work[R]) -> R:
        """The same, awaited."""
        ...

    def close(self) -> None:
        """Close the transport. The next use opens another."""
        ...


class _Far(NamedTuple):
    """The other side, as long as it is there."""

    thread: threading.Thread
    loop: asyncio.AbstractEventLoop
    transport: Transport
    leave: asyncio.Event
    calls: "set[asyncio.Task[Any] | None]"


class ThreadBridge:
    """A `Bridge` to a loop in a thread."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._far: _Far | None = None
        self._lock = threading.Lock()
        _forget_in_child(self)

    def run(self, work: Work[R], shortcut: Shortcut[R] | None = None) -> R:
        if shortcut is not None:
            far = self._far or self._enter()
            if (done := shortcut(far.transport)) is not None:
                return done
        future = self._send(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise _closed() from None
        except BaseException:
            future.cancel()
            raise

    async def arun(self, work: Work[R]) -> R:
        # The first use opens the store: that takes a while, and other coroutines of the caller must go on meanwhile.
        if self._far is None:
            await asyncio.to_thread(self._enter)
        future = self._send(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _closed() from None

    def close(self) -> None:
        with self._lock:
            far, self._far = self._far, None
        if far is not None:
            far.loop.call_soon_threadsafe(far.leave.set)
            far.thread.join()

    def forget(self) -> None:
        """In a forked child: the other side stayed with the parent."""
        self._far, self._lock = None, threading.Lock()

    def _send(self, work: Work[R]) -> "concurrent.futures.Future[R]":
        far = self._enter()
        call = _call(far, work)
        try:
            return asyncio.run_coroutine_threadsafe(call, far.loop)
        except RuntimeError:
            call.close()
            raise _closed() from None

    def _enter(self) -> _Far:
        with self._lock:
            if self._far is None:
                self._far = self._open()
            return self._far

    def _open(self) -> _Far:
        opened: concurrent.futures.Future[_Far] = concurrent.futures.Future()
        threading.Thread(target=self._serve, args=(opened,), name="ganger", daemon=True).start()
        return opened.result()

    def _serve(self, opened: "concurrent.futures.Future[_Far]") -> None:
        with asyncio.Runner() as runner:
            runner.run(self._stay(opened))

    async def _stay(self, opened: "concurrent.futures.Future[_Far]") -> None:
        leave = asyncio.Event()
        try:
            async with self._opening() as transport:
                far = _Far(threading.current_thread(), asyncio.get_running_loop(), transport, leave, set())
                opened.set_result(far)
                await leave.wait()
                await _send_home(far)
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)


async def _call(far: _Far, work: Work[R]) -> R:
    task = asyncio.current_task()
    far.calls.add(task)
    try:
        return await work(far.transport)
    finally:
        far.calls.discard(task)


async def _send_home(far: _Far) -> None:
    """Whoever still waits for an answer is told before the transport goes."""
    calls = [task for task in far.calls if task is not None]
    for task in calls:
        task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


def _closed() -> StoreClosed:
    return StoreClosed("the app was closed before this call was answered; whether it was carried out is not known")


def _forget_in_child(bridge: ThreadBridge) -> None:
    reference = weakref.ref(bridge)

    def forget() -> None:
        if (found := reference()) is not None:
            found.forget()

    os.register_at_fork(after_in_child=forget)
