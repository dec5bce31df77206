"""Functions for a node to execute: well-behaved ones, and all the others."""

import asyncio
import ctypes
import datetime as dt
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ganger.core.signals import Cancel, Retry, Snooze
from ganger.node.functions import context


def nothing() -> None:
    return None


def add(first: int, second: int = 0) -> int:
    return first + second


def tell_trace() -> str | None:
    return context.current().traceparent


async def tell_trace_from_the_loop() -> str | None:
    return context.current().traceparent


def note_run(path: str) -> None:
    """Leave a line for each time that this is run."""
    with Path(path).open("a") as file:
        file.write("run\n")


def note_moment(path: str, name: int) -> None:
    """Leave a line with a name and when that was, by the boot clock."""
    with Path(path).open("a") as file:
        file.write(f"{name} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n")


def note_run_slowly(path: str) -> None:
    note_run(path)
    select.select([], [], [], 0.01)


def weekday(day: dt.date) -> int:
    return day.weekday()


def fail() -> None:
    raise ValueError("it is not to be")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")

    __repr__ = __str__


def fail_unprintably() -> None:
    raise Unprintable


def return_socket() -> object:
    return threading.Lock()


def return_much(size: int) -> str:
    return "x" * size


def return_circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def leave_by_exit() -> None:
    sys.exit(3)


def die(code: int = 3) -> None:
    os._exit(code)


def segfault() -> None:
    ctypes.string_at(0)


def print_and_die() -> None:
    print("last words", flush=True)
    os._exit(1)


def say(text: str = "hello") -> None:
    print(text)
    print("oops", file=sys.stderr)
    subprocess.run(["/bin/echo", "from below"], check=True)


def tell_everywhere(text: str, path: str, how: str) -> list[Any]:
    """Says a text on every stream, waits for the file, and ends with the text as is said."""
    print(f"out {text[:3]}", end="", flush=True)
    print(text[3:])
    sys.stderr.write("e" * 70_000 + text)
    context.log(f"log {text}")
    context.progress(50, f"at {text}")
    while path and not Path(path).exists():
        time.sleep(0.01)
    match how:
        case "raise":
            raise ValueError(text)
        case "retry":
            raise Retry(5, text)
        case "die":
            os._exit(1)
    return [{"deep": f"<{text}>"}, 5_000, "plain"]


async def tell_everywhere_on_loop(text: str, path: str, how: str) -> list[Any]:
    return await asyncio.to_thread(tell_everywhere, text, path, how)


def say_much(size: int) -> None:
    sys.stdout.write("y" * size)


def say_much_at(path: str, size: int) -> None:
    """Say it when the file is there."""
    wait_for(path)
    say_much(size)


def log_twice() -> None:
    context.log("first")
    context.log("second")


def tell_context() -> list[int]:
    return [context.task(), context.fence(), context.attempt()]


def report_progress() -> None:
    context.progress(10, "begun")
    context.progress(90, "nearly")
    select.select([], [], [], 0.05)


def ask_again(delay: int | None) -> None:
    raise Retry(None if delay is None else delay / 1_000)


def snooze(delay: int) -> None:
    raise Snooze(delay / 1_000)


def cancel_itself() -> None:
    raise Cancel("no use")


def wait_for(path: str) -> str:
    """Say that it has begun, in a file beside, and run until the file is there."""
    Path(f"{path}.begun").write_text("yes")
    while not Path(path).exists():
        time.sleep(0.005)
    return "there"


def obey() -> str:
    """Run until nobody wants it any more."""
    while not context.cancelled():
        time.sleep(0.005)
    return "obeyed"


def begin_and_wait(path: str) -> None:
    """Say that it has begun, and run for ever."""
    Path(path).write_text(str(os.getpid()))
    threading.Event().wait()


def begin_once(path: str) -> None:
    """Say that it has begun, and run for ever; but not again."""
    if not Path(path).exists():
        Path(f"{path}.tmp").write_text(f"{os.getpid()}\n")
        Path(f"{path}.tmp").rename(path)
        threading.Event().wait()


def begin_and_hold_the_lock(path: str) -> None:
    """Say that it has begun, and keep the interpreter from doing anything else for ever."""
    Path(path).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)


def leave_a_daemon(path: str) -> None:
    """Start a process that leaves its session and its parent, and wait."""
    script = f"setsid sleep 600 & echo $! > {path}.tmp; mv {path}.tmp {path}"
    subprocess.run(["/bin/sh", "-c", script], check=True)
    threading.Event().wait()


def kill_own_warden() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    threading.Event().wait()


async def add_later(first: int, second: int) -> int:
    await asyncio.sleep(0)
    return first + second


async def meet(folder: str, count: int) -> int:
    """Return when so many are here at once."""
    os.close(os.open(f"{folder}/{context.task()}", os.O_CREAT))
    while len(os.listdir(folder)) < count:  # noqa: ASYNC110 - the others are not known here
        await asyncio.sleep(0.005)
    return os.getpid()


def meet_on_threads(folder: str, count: int) -> int:
    Path(folder, str(context.task())).touch()
    while len(list(Path(folder).iterdir())) < count:
        time.sleep(0.005)
    print(f"thread of {context.task()}")
    return os.getpid()


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


def fork_and_return(path: str) -> str:
    """Return in two processes."""
    if os.fork() == 0:
        note_run(path)
        return "the copy"
    os.wait()
    return "the original"


def tell_pid() -> int:
    return os.getpid()


def say_and_wait(path: str) -> None:
    """Says something on every stream, and ends when the file is there."""
    print("out one")
    print("err one", file=sys.stderr)
    context.log("log one")
    while not Path(path).exists():
        time.sleep(0.01)
    print("out two")
    context.log("log two")


async def say_and_wait_on_loop(path: str) -> None:
    await asyncio.to_thread(say_and_wait, path)


def print_much_and_die(size: int) -> None:
    sys.stdout.write("y" * size)
    os._exit(1)


def say_until_cut(size: int) -> int:
    """Prints so much again and again until somebody makes the file shorter; how much was printed."""
    printed = 0
    while os.fstat(1).st_size == printed:
        printed += os.write(1, b"z" * size)
        time.sleep(0.01)
    return printed


def list_environment() -> list[str]:
    """The names of what it finds there; the interpreter adds some of its own where the locale is none."""
    return sorted(name for name in os.environ if not name.startswith("LC_"))
