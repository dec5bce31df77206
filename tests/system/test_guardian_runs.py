"""What a command is given, what it leaves, and what becomes of it: real programs under a real guardian."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Fail, Killed, Outcome, Release, Succeed
from ganger.node.guardian.run import NeverRan
from ganger.node.isolation import Isolation, find_cgroups, is_populated, kill_cgroups
from ganger.node.spool import SpoolKey
from ganger.wire.specs import CommandSpec, Limits, ShellSpec
from tests.unit.node.guarded import (
    PATH,
    WALLS,
    assign,
    begin,
    command,
    executor,
    guardian_of,
    heard,
    make_executor,
    run,
    shell,
    survivors,
    until,
    zombies,
)

EXITS: list[tuple[CommandSpec | ShellSpec, Outcome, bytes]] = [
    (command("true"), Succeed(b"0"), b"0"),
    (command("false"), Fail(reason="it exited with code 1"), b"1"),
    (shell("exit 126"), Fail(reason="it exited with code 126"), b"126"),
    (shell("exit 127"), Fail(reason="it exited with code 127"), b"127"),
    (shell("exit 137"), Fail(reason="it exited with code 137"), b"137"),
    (shell("exit 143"), Fail(reason="it exited with code 143"), b"143"),
    (shell("exit 255"), Fail(reason="it exited with code 255"), b"255"),
    (shell("kill -9 $$"), Fail(137, "it was killed by SIGKILL"), b"137"),
    (shell("kill -SEGV $$"), Fail(139, "it was killed by SIGSEGV"), b"139"),
    (shell("kill -TERM $$"), Fail(143, "it was killed by SIGTERM"), b"143"),
    (shell("kill -40 $$"), Fail(168, "it was killed by signal 40"), b"168"),
]


@pytest.mark.parametrize("walls", WALLS)
def test_every_exit_becomes_the_outcome_that_the_table_says(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        async with executor(tmp_path, isolation=walls) as made:
            for task, (spec, outcome, result) in enumerate(EXITS, 1):
                ended = await run(made, assign(task, spec))
                assert (ended.outcome, ended.data["result"]) == (outcome, result), spec
            await until(lambda: not zombies(guardian_of(tmp_path)))

    asyncio.run(check())


def bad_starts(folder: Path) -> list[tuple[CommandSpec | ShellSpec, int, str]]:
    (folder / "plain.txt").write_text("no program")
    (folder / "no-head").write_text("echo hello\n")
    (folder / "no-head").chmod(0o755)
    (folder / "lost-head").write_text("#!/no/such/interpreter\n")
    (folder / "lost-head").chmod(0o755)
    return [
        (command("no-such-program"), 127, "there is no program no-such-program in PATH"),
        (command("/no/such/program"), 127, "there is no program /no/such/program"),
        (command(str(folder / "plain.txt")), 126, "may not be executed"),
        (command(str(folder)), 126, "may not be executed"),
        (command(str(folder / "no-head")), 126, "is not a program"),
        (command(str(folder / "lost-head")), 126, "the interpreter in its first line is missing"),
        (command("true", "x" * 200_000), 126, "more arguments and environment"),
        (command(""), 127, "names no program"),
        (command("true", cwd="/no/such/folder"), 2, "there is no working directory /no/such/folder"),
        (command("true", cwd=str(folder / "plain.txt")), 2, "there is no working directory"),
        (command("no-such-program", limits=Limits(cpu=5)), 127, "there is no program"),
        (command(str(folder / "no-head"), limits=Limits(files=50)), 126, "is not a program"),
    ]


def test_what_cannot_be_started_says_why_and_the_next_one_runs(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            for task, (spec, code, words) in enumerate(bad_starts(tmp_path), 1):
                outcome = (await run(made, assign(task, spec))).outcome
                assert isinstance(outcome, Fail)
                assert (outcome.code, words in str(outcome.reason)) == (code, True), outcome
            assert (await run(made, assign(99, command("true")))).outcome == Succeed(b"0")

    asyncio.run(check())


@pytest.mark.parametrize(
    "spec",
    [
        b"{",
        b'{"argv": "true"}',
        b'{"argv": ["true"], "colour": 1}',
        b'{"argv": ["a\\u0000b"]}',
        b'{"argv": ["true"], "env": {"A=B": "1"}}',
        b'{"argv": ["true"], "limits": {"cpu": -1}}',
    ],
)
def test_a_spec_that_is_none_fails_for_good(tmp_path: Path, spec: bytes) -> None:
    async def check() -> None:
        made = make_executor(tmp_path)
        started = await made.start(assign(1, spec, kind="command"))
        assert isinstance(started, NeverRan)
        outcome = (await started.ended()).outcome
        assert isinstance(outcome, Fail)
        assert not outcome.again
        assert not (tmp_path / "run").exists()
        await made.close(leave_running=False)

    asyncio.run(check())


def test_a_command_gets_what_its_spec_says_and_nothing_else(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            spec = shell("pwd; umask; env; cat", stdin="from\nthe spec", env={"COLOUR": "grün"}, cwd="/usr")
            ended = await run(made, assign(7, spec, fence=3))
            folder, umask, *rest = ended.data["stdout"].decode().splitlines()
            assert (folder, umask) == ("/usr", "0027")
            assert rest[-2:] == ["from", "the spec"]
            given = dict(line.split("=", 1) for line in rest[:-2])
            mark = given.pop("GANGER_MARK")
            assert mark.endswith(":7:3")
            for added_by_bash in ("PWD", "SHLVL", "_", "OLDPWD"):
                given.pop(added_by_bash, None)
            assert given == {
                "PATH": PATH, "HOME": str(tmp_path), "LANG": "C.UTF-8", "COLOUR": "grün",
                "GANGER_TASK": "7", "GANGER_FENCE": "3",
            }  # fmt: skip

    before = os.umask(0o027)
    try:
        asyncio.run(check())
    finally:
        os.umask(before)


def test_a_command_has_its_own_session_and_no_descriptors_of_ours(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            for task, limits in enumerate([Limits(), Limits(cpu=5)], 1):
                script = "ps -o pid=,sid=,pgid= -p $$; ls -x /proc/$$/fd; :"
                said = (await run(made, assign(task, shell(script, limits=limits)))).data["stdout"].decode().split()
                assert said[0] == said[1] == said[2]
                # Bash keeps one for itself.
                assert set(said[3:]) - {"255"} == {"0", "1", "2"}

    asyncio.run(check())


def test_a_command_has_no_signal_blocked_or_ignored(tmp_path: Path) -> None:
    # The C library leaves two signals of its own ignored, which no program can use.
    own = 1 << 31 | 1 << 32

    async def check() -> None:
        async with executor(tmp_path) as made:
            for task, limits in enumerate([Limits(), Limits(cpu=5)], 1):
                look = command("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", limits=limits)
                said = (await run(made, assign(task, look))).data["stdout"].split()
                assert [int(mask, 16) & ~own for mask in said[1::2]] == [0, 0]

    asyncio.run(check())


def test_a_long_script_runs_like_a_short_one(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "\n".join(["# a comment that takes room"] * 20_000) + "\nread line; echo got $line"
            ended = await run(made, assign(1, shell(script, stdin="it\n")))
            assert ended.data["stdout"] == b"got it\n"

    asyncio.run(check())


def test_a_large_stdin_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            assert (await run(made, assign(1, command("true", stdin="x" * 5_000_000)))).outcome == Succeed(b"0")
            ended = await run(made, assign(2, command("wc", "-c", stdin="x" * 5_000_000)))
            assert ended.data["stdout"].strip() == b"5000000"

    asyncio.run(check())


def test_output_is_kept_byte_for_byte(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            ended = await run(made, assign(1, shell(r"printf 'a\0\377\xc3\n'; printf 'no newline' >&2")))
            assert ended.data["stdout"] == b"a\0\xff\xc3\n"
            assert ended.data["stderr"] == b"no newline"
            assert sorted(ended.data["mixedout"]) == sorted(b"a\0\xff\xc3\nno newline")
            assert set(ended.streams) == {"stdout", "stderr", "mixedout"}

    asyncio.run(check())


def test_merged_output_has_the_exact_order(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "for i in $(seq 200); do echo out $i; echo err $i >&2; done"
            ended = await run(made, assign(1, shell(script, merge=True)))
            wanted = "".join(f"out {i}\nerr {i}\n" for i in range(1, 201)).encode()
            assert ended.data["stdout"] == ended.data["mixedout"] == wanted
            assert "stderr" not in ended.data

    asyncio.run(check())


def test_output_beyond_the_limit_is_cut_with_a_mark_and_the_program_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "head -c 300000 /dev/zero; echo done > finished"
            ended = await run(made, assign(1, shell(script, limits=Limits(output=1000))))
            assert ended.outcome == Succeed(b"0")
            assert (tmp_path / "finished").read_text() == "done\n"
            assert ended.data["stdout"] == bytes(1000)
            assert json.loads(ended.data["cut"]) == {"stdout": 299_000, "mixedout": 299_000}
            extent = made.spool.read_ended(SpoolKey(TaskId(1), Fence(1), "stdout")).signal.extent()
            assert (extent.length, extent.dropped) == (1000, 299_000)

    asyncio.run(check())


def test_large_output_stays_in_the_spool(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            ended = await run(made, assign(1, shell("head -c 70000 /dev/zero; echo small >&2")))
            assert ended.data.keys() == {"stderr", "result"}
            assert set(ended.streams) == {"stdout", "stderr", "mixedout"}

    asyncio.run(check())


def test_a_command_that_takes_too_long_is_timed_out(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            ended = await run(made, assign(1, command("sleep", "100"), timeout=150))
            assert ended.outcome == Fail(124, "timed out after 150 ms")
            assert ended.data["result"] == b"143"
            polite = shell("trap 'echo bye; exit 0' TERM; echo here; while :; do sleep 0.02; done")
            ended = await run(made, assign(2, polite, timeout=2_000))
            assert ended.outcome == Fail(124, "timed out after 2000 ms")
            assert ended.data["stdout"] == b"here\nbye\n"
            deaf = shell("trap '' TERM; while :; do sleep 1; done", grace=100)
            ended = await run(made, assign(3, deaf, timeout=1_500))
            assert ended.outcome == Fail(124, "timed out after 1500 ms")
            assert ended.data["result"] == b"137"

    asyncio.run(check())


@pytest.mark.parametrize("walls", WALLS)
def test_limits_bind_the_command_and_all_below_it(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        async with executor(tmp_path, isolation=walls) as made:
            spin = command("python3", "-c", "while True: pass", limits=Limits(cpu=1))
            outcome = (await run(made, assign(1, spin))).outcome
            assert outcome == Fail(reason="used more than its 1 s of CPU time")
            deaf = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
            outcome = (await run(made, assign(2, command("python3", "-c", deaf, limits=Limits(cpu=1))))).outcome
            assert outcome == Fail(reason="used more than its 1 s of CPU time")
            greedy = shell("python3 -c 'x = bytearray(1 << 30)'", limits=Limits(memory=200 << 20))
            assert isinstance((await run(made, assign(3, greedy))).outcome, Fail)
            files = shell("ulimit -n; ulimit -Hn", limits=Limits(files=30))
            assert (await run(made, assign(4, files))).data["stdout"] == b"30\n30\n"

    asyncio.run(check())


def test_a_stop_is_a_kill_however_the_command_takes_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done"
            started = await begin(made, assign(1, shell(script)))
            await heard(made, started, b"ready")
            await started.stop("the operator wanted it")
            await started.stop("again")
            ended = await started.ended()
            assert ended.outcome == Killed("the operator wanted it")
            assert ended.data["result"] == b"0"
            assert (await started.ended()) is ended

    asyncio.run(check())


def test_a_stopped_command_hears_that_it_shall_end(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "trap 'echo bye; exit 0' TERM; echo ready; kill -STOP $$; while :; do sleep 0.02; done"
            started = await begin(made, assign(1, shell(script)))
            await heard(made, started, b"ready")
            await started.stop("enough")
            assert (await started.ended()).data["stdout"] == b"ready\nbye\n"

    asyncio.run(check())


def test_the_end_of_a_command_is_told_when_what_it_left_is_dead(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "(trap '' TERM; exec sleep 1000) & (setsid sleep 1000 &); echo out; exit 3"
            ended = await run(made, assign(1, shell(script, grace=200)))
            assert ended.outcome == Fail(reason="it exited with code 3")
            assert ended.data["stdout"] == b"out\n"
            assert survivors(tmp_path) == []

    asyncio.run(check())


def test_a_lease_that_is_not_renewed_ends_the_command_and_counts_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            ended = await run(made, assign(1, command("sleep", "100"), trust=200))
            assert ended.outcome == Release()
            ended = await run(made, assign(2, command("touch", "ran"), trust=-1))
            assert ended.outcome == Release()
            assert not (tmp_path / "ran").exists()
            renewed = await begin(made, assign(3, command("sleep", "2"), trust=1_500))
            renewed.trust(assign(3, b"", trust=60_000).trusted_until)
            assert (await renewed.ended()).outcome == Succeed(b"0")

    asyncio.run(check())


def test_closing_ends_everything_and_the_guardian_too(tmp_path: Path) -> None:
    async def check() -> list[Outcome]:
        async with executor(tmp_path) as made:
            runs = [await begin(made, assign(task, command("sleep", "1000"))) for task in range(1, 6)]
            waiting = [asyncio.ensure_future(started.ended()) for started in runs]
            guardian = guardian_of(tmp_path)
            await made.close(leave_running=False)
            await until(lambda: not guardian.is_running() or guardian.status() == "zombie")
            assert survivors(tmp_path) == []
            return [(await ended).outcome for ended in waiting]

    assert asyncio.run(check()) == [Release()] * 5


# The shell in between has lost root's rights, and so has what it starts.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", 'exec "$@"', "sh"]


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_works_for_a_plain_user(walls: Isolation) -> None:
    with tempfile.TemporaryDirectory(prefix="ganger-") as name, delegated(walls) as enter:
        os.chown(name, 65534, 65534)
        done = subprocess.run(
            [*enter, *NOBODY, _python_for_anybody(), "-m", "tests.system.plain_user", name, walls],
            env={"PATH": PATH, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def delegated(walls: Isolation) -> Iterator[list[str]]:
    """The words that let a command start in a cgroup which belongs to a plain user."""
    if walls is not Isolation.CGROUP:
        yield []
        return
    ours = find_cgroups(f"ganger-delegated-{os.getpid()}")
    assert ours is not None
    for file in ("", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"):
        os.chown(ours.path + file, 65534, 65534)
    try:
        yield ["sh", "-c", f'echo $$ > {ours.path}/cgroup.procs; exec "$@"', "sh"]
    finally:
        kill_cgroups(ours.path)
        while is_populated(ours.path):
            time.sleep(0.001)
        ours.close()


def _python_for_anybody() -> str:
    """Our own interpreter may lie in a folder that only its user can enter."""
    for python in (sys.executable, "/usr/bin/python3"):
        ask = [*NOBODY, python, "-c", "import sys; print(*sys.version_info[:2])"]
        said = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.split()
        if said == [str(part) for part in sys.version_info[:2]]:
            return python
    pytest.skip("no Python of this version can be reached by a plain user")
