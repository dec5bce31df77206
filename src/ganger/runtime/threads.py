"""A blocking call beside the event loop. Apart from the calls on files, which those need who have no loop."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_whole(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call in a thread, and see its end even when cancelled.

    Whoever is cancelled closes its file next; closed under a running thread, the descriptor could already be another's.
    """
    job = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError as cancelled:
        await _outlast(job)
        raise cancelled from job.exception()


async def _outlast(job: "asyncio.Future[T]") -> None:
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError:
            # The caller raises the first one; a second changes nothing about the thread that still runs.
            continue
