"""`ganger worker`: solve jobs of a server with a function or with a program."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ganger.client.jobs.lasting import LastingWorker
    from ganger.client.jobs.place import Place
    from ganger.client.jobs.solving import Solver
    from ganger.client.jobs.worker import JobWorker


@click.command()
@click.option("--url", metavar="URL", help="The server (default: GANGER_URL, ganger.toml, http://127.0.0.1:8470).")
@click.option("--type", "job_type", metavar="TYPE", help="Take jobs of this type, if the server has types.")
@click.option("--name", metavar="NAME", help="How the worker is called (default: the machine).")
@click.option("--id", "identity", metavar="ID", help="What stays the same over restarts (default: /etc/machine-id).")
@click.option("--slots", type=click.IntRange(1, 1_000), default=1, show_default=True, help="So many jobs at a time.")
@click.option(
    "--protocol", type=click.Choice(["1", "2"]), default="2", show_default=True,
    help="2: what it computes outlasts a lost connection. 1: a connection for each slot, and it does not.",
)  # fmt: skip
@click.argument("words", nargs=-1, required=True, metavar="MODULE:FUNCTION | -- PROGRAM...")
def worker(words: tuple[str, ...], slots: int, protocol: str, **given: Any) -> None:
    """Solve jobs of a server with a function, or with a program that is run for each.

    The function gets the payload as bytes and returns the result; it may be async, and may take a second argument with
    which it tells its progress. In the words of a program {payload} and {result} are files; without them it reads its
    standard input, and its output is the result.
    """
    import asyncio

    from ganger.assembly.work import find_place

    place = find_place(**given)
    asyncio.run(_work(place, _choose_solver(words), slots, protocol))


def _choose_solver(words: tuple[str, ...]) -> "Solver":
    import shutil
    from pathlib import Path

    from ganger.assembly.work import is_function, load_function
    from ganger.client.jobs.solving import FunctionSolver, ProgramSolver
    from ganger.core.errors import BadInput

    if len(words) == 1 and is_function(words[0]):
        return FunctionSolver(load_function(words[0], Path.cwd()))
    if shutil.which(words[0]) is None:
        raise BadInput(f"there is no program {words[0]!r:.80} that could be run here", field="program")
    return ProgramSolver(words)


def _hire(place: "Place", solver: "Solver", slots: int, protocol: str) -> "list[LastingWorker] | list[JobWorker]":
    from ganger.cli.printing import tell
    from ganger.client.jobs.lasting import LastingWorker
    from ganger.client.jobs.worker import JobWorker

    if protocol == "2":
        return [LastingWorker(place, solver, tell, slots)]
    told: set[str] = set()

    def tell_once(text: str) -> None:
        """Several connections say the same."""
        if text not in told:
            tell(text)
        told.add(text)

    return [JobWorker(place, solver, tell_once) for _ in range(slots)]


async def _work(place: "Place", solver: "Solver", slots: int, protocol: str) -> None:
    """Work until a signal says that it is enough; the second one does not wait for the jobs."""
    import asyncio
    import signal
    from concurrent.futures import ThreadPoolExecutor

    from ganger.cli.printing import tell

    # A function takes a thread for as long as it runs, and there must be some left for files.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(slots + 8))
    workers = _hire(place, solver, slots, protocol)
    working = asyncio.gather(*(worker.run() for worker in workers))
    signals = iter((True,))

    def end() -> None:
        if next(signals, False):
            tell("finishing the jobs; press Ctrl-C again to end now")
            for worker in workers:
                worker.drain()
        else:
            working.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        await working
    except asyncio.CancelledError:
        tell("ended; the server gives its jobs to others")
