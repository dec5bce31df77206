"""A node and its engine in one process: everything that takes tasks from a store and executes them."""

import gc
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ganger.assembly.folder import FUNCTIONS, NodeFolder, locate_nodes, make_nodes
from ganger.assembly.inheriting import inherit, sweep
from ganger.assembly.key import open_key
from ganger.assembly.location import is_remote, is_served, locate_own
from ganger.assembly.plugins import read_plugins
from ganger.assembly.registry import Parts, make_far_source, open_far, open_parts
from ganger.assembly.retention import read_retention
from ganger.assembly.secrets import open_secrets
from ganger.assembly.settings import Settings, find_passed, split_names
from ganger.assembly.source import EngineSource, choose_lease, has_no_plugins
from ganger.assembly.tracing import trace_attempts
from ganger.core.address import strip_password
from ganger.core.clock import Clock, Entropy
from ganger.core.ids import Fence, TaskId
from ganger.core.task import Kind
from ganger.core.token import make_token
from ganger.databases.sqlite import Rank
from ganger.engine.collecting import Collector
from ganger.engine.conditions import Judge
from ganger.engine.engine import Engine
from ganger.engine.schedules import Scheduler
from ganger.engine.upkeep import keep_up
from ganger.node.errands import Errands
from ganger.node.executor import BatchExecutor, Executor
from ganger.node.executors.command import CommandExecutor, Home
from ganger.node.executors.function import FunctionExecutor
from ganger.node.executors.plugin import PluginExecutor
from ganger.node.functions.options import FunctionOptions
from ganger.node.guardian.launch import Post
from ganger.node.guardian.remote import Guardian
from ganger.node.node import Node
from ganger.node.options import NodeOptions
from ganger.node.outbound import trust
from ganger.node.probes import UNTRUSTED, Place, Probes
from ganger.node.reporting import Reporting
from ganger.node.secrets import Secrets
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.machine import feel_machine
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

__all__ = ["EngineSource", "NodeWishes", "OpenNode", "locate_folder", "open_node"]

PLAIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_TURN: Final = 0.001
_LOT: Final = 20_000
_COMMANDS: Final = frozenset({Kind.COMMAND, Kind.SHELL})
USUAL: Final = FunctionOptions(Path())
"""How functions run where nobody says how; the folder is that of the node."""


@dataclass(frozen=True, slots=True)
class NodeWishes:
    """What else a node may be told. `folder` None: beside the store. `processes` execute functions, and `functions`
    says all else of how they do, but where.

    `paths` are where functions and plugins are looked for first. `plugins` False ignores queues that name one. `named`
    says what some plugins are, besides the settings. `home` is where commands run and what they find in their
    environment; None is the home of the user. `files` is how many files they may have open, and functions too; None: as
    many as this process.
    """

    folder: Path | None = None
    processes: int = 1
    paths: tuple[str, ...] = ()
    plugins: bool = True
    named: Mapping[str, str] = field(default_factory=dict)
    home: Home | None = None
    upkeep: bool = True
    functions: FunctionOptions = USUAL
    files: int | None = None


PLAIN: Final = NodeWishes()


class OpenNode(NamedTuple):
    """A node that works, and the engine that it works for. Drain or stop the node, or leave the context."""

    node: Node
    engine: Engine
    source: EngineSource


@asynccontextmanager
async def open_node(
    settings: Settings, options: NodeOptions, wishes: NodeWishes = PLAIN, *, telemetry: Telemetry = SILENT
) -> AsyncIterator[OpenNode]:
    """A node on the store of the settings, at work until the end of the context, where it is stopped.

    What it executes is what `options.kinds` names; without that commands, shell scripts, functions and plugins. Raises
    NodeTaken while another node of this name lives, BadInput, and StoreError.
    """
    _tune()
    async with AsyncExitStack() as stack:
        if is_remote(settings):
            ground, parts = await _reach(stack, settings, telemetry), None
        else:
            ground, parts = await _break_ground(stack, settings, telemetry)
        folder = NodeFolder.open(_place(stack, settings, options, wishes), ground.entropy)
        stack.callback(folder.close)
        trace = trace_attempts(settings, ground.engine, telemetry)
        wishes = replace(wishes, named={**read_plugins(settings.plugins), **wishes.named})
        lease = choose_lease(ground.engine.store.capabilities, options.lease, has_plugins=bool(wishes.named))
        options = replace(options, lease=lease, sign=ground.sign, joined=folder.note_node, trace=trace)
        bench = _Bench(ground, folder, options, wishes, telemetry)
        told = _tell_store(settings, options.environment)
        upkeep = parts is not None and wishes.upkeep and await _upkeep(stack, settings, bench, parts, told)
        for service in upkeep or ():
            stack.push_async_callback(service.stop)
            await service.start()
        opened, reporting = bench.build(told, settings)
        beside = _find_beside(settings, options, wishes)
        sweeping = sweep(beside, opened.source, ground.entropy, telemetry)
        for service in (*sweeping, reporting, opened.node):
            stack.push_async_callback(service.stop)
            await service.start()
        yield opened


def _tune() -> None:
    """Make Python fit for many short tasks: this is the process's main work."""
    # The store's thread and the event loop take turns: with the usual 5 ms each waits for the other most of the time.
    sys.setswitchinterval(min(sys.getswitchinterval(), _TURN))
    # Thousands of tasks are in hand at once, and none of them is garbage: looking for it less often saves a tenth.
    gc.set_threshold(max(gc.get_threshold()[0], _LOT), *gc.get_threshold()[1:])


class Ground(NamedTuple):
    """What a node stands on: the engine, wherever that is, how attempts get their tokens, and their secrets."""

    engine: Engine
    clock: Clock
    entropy: Entropy
    sign: Callable[[TaskId, Fence], str]
    make_source: Callable[[NodeOptions, Callable[[str], bool]], EngineSource]
    secrets: Secrets


async def _break_ground(stack: AsyncExitStack, settings: Settings, telemetry: Telemetry) -> tuple[Ground, Parts]:
    """An engine in this process, on the store of the settings."""
    opening = open_parts(settings, SystemClock(), SystemEntropy(), Rank.NODE, telemetry)
    parts = await stack.enter_async_context(opening)
    engine = Engine(parts.store, parts.clock, parts.entropy, blobs=parts.blobs, telemetry=telemetry)
    stack.push_async_callback(engine.close)
    sign = partial(make_token, open_key(locate_own(settings), parts.entropy))
    source, secrets = partial(_make_source, engine, parts), open_secrets(settings)
    return Ground(engine, parts.clock, parts.entropy, sign, source, secrets), parts


def _make_source(engine: Engine, parts: Parts, options: NodeOptions, has_plugin: Callable[[str], bool]) -> EngineSource:
    return EngineSource(engine, parts.clock, blobs=parts.blobs, ignore=options.ignore, has_plugin=has_plugin)


async def _reach(stack: AsyncExitStack, settings: Settings, telemetry: Telemetry) -> Ground:
    """The engine behind a server, which keeps the store up, and makes the tokens."""
    engine, clock = await stack.enter_async_context(open_far(settings, telemetry)), SystemClock()
    source, secrets = partial(make_far_source, engine, clock), open_secrets(settings)
    return Ground(engine, clock, SystemEntropy(), engine.pass_token, source, secrets)


async def _upkeep(
    stack: AsyncExitStack, settings: Settings, bench: "_Bench", parts: Parts, told: dict[str, str]
) -> Sequence[Service]:
    """What must be done again and again; files, ports, addresses and commands of conditions are asked from here."""
    engine, telemetry = bench.ground.engine, bench.telemetry
    errands = bench.make_errands(told)
    if errands is not None:
        stack.push_async_callback(errands.close)
        await errands.open()
    said = bench.options
    place = Place(said.name, said.queues, said.ignore, said.kinds, said.labels)
    probes = Probes(None if errands is None else errands.run, place, rule=trust(UNTRUSTED, settings.probe_hosts))
    stack.callback(probes.close)
    return (
        keep_up(parts.store, parts.clock, read_retention(settings), telemetry=telemetry),
        Collector(parts.store, parts.clock, parts.blobs, telemetry=telemetry),
        Judge(engine, parts.clock, probes, telemetry=telemetry),
        Scheduler(engine, parts.clock, telemetry=telemetry),
        *inherit(settings, engine, parts.clock, telemetry),
    )


def _place(stack: AsyncExitStack, settings: Settings, options: NodeOptions, wishes: NodeWishes) -> Path:
    """Where the node keeps what it needs: beside the store, or, if that ends with the process, where that ends too."""
    if wishes.folder is not None:
        return wishes.folder
    if (found := locate_folder(settings, options.name)) is not None:
        make_nodes(found.parent)
        return found
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganger-node-")))


def _find_beside(settings: Settings, options: NodeOptions, wishes: NodeWishes) -> Path | None:
    """Where the folders of the other nodes are; None for a node that has its own somewhere else."""
    folder = None if wishes.folder is not None else locate_folder(settings, options.name)
    return None if folder is None else folder.parent


def locate_folder(settings: Settings, name: str) -> Path | None:
    """Where a node of that name keeps what it needs: beside the store; None if the store is nowhere.

    A node that works for a server keeps it in the folder in which it was started.
    """
    if is_remote(settings):
        return Path.cwd() / "ganger-nodes" / name
    found = locate_own(settings)
    return None if found is None else locate_nodes(found.database) / name


def _tell_store(settings: Settings, said: Mapping[str, str]) -> dict[str, str]:
    """The store as an attempt is told it, which may run in another folder: without a password.

    Where the address has one, the attempt asks the server if there is one (`said`).
    """
    address = strip_password(settings.store)
    if is_remote(settings):
        return {"GANGER_URL": address}
    if is_served(settings):
        told = {"GANGER_HOME": str(Path.cwd() / settings.home)}
        if settings.store_password_file:
            told["GANGER_STORE_PASSWORD_FILE"] = str(Path.cwd() / settings.store_password_file)
        return told if address != settings.store and "GANGER_URL" in said else {"GANGER_STORE": address, **told}
    scheme, _, rest = settings.store.partition(":")
    path = Path(rest.removeprefix("//"))
    return {"GANGER_STORE": f"sqlite:{path.absolute()}"} if scheme == "sqlite" else {}


class _Bench(NamedTuple):
    """Where the parts of one node are put together."""

    ground: Ground
    folder: NodeFolder
    options: NodeOptions
    wishes: NodeWishes
    telemetry: Telemetry

    def build(self, told: dict[str, str], settings: Settings) -> tuple[OpenNode, Reporting]:
        plugins = self._make_plugins() if self.wishes.plugins and self.options.kinds is None else None
        source = self.ground.make_source(self.options, has_no_plugins if plugins is None else plugins.knows)
        reporting = Reporting(source, self.telemetry)
        executors: list[Executor] = [] if plugins is None else [plugins]
        if self._wants(*_COMMANDS):
            executors.append(
                CommandExecutor(self._guard("commands"), self._home(), self.options.slots, self.ground.secrets)
            )
        batch: list[BatchExecutor] = []
        if self._wants(Kind.FUNCTION):
            batch.append(self._make_functions(source, reporting, self._plan_functions(told, settings)))
        return OpenNode(self._make_node(source, executors, batch, told), self.ground.engine, source), reporting

    def _make_node(
        self,
        source: EngineSource,
        executors: Sequence[Executor],
        batch: Sequence[BatchExecutor],
        told: Mapping[str, str],
    ) -> Node:
        token = self.options.token or self.folder.token
        options = replace(self.options, token=token, environment={**told, **self.options.environment})
        clock, entropy = self.ground.clock, self.ground.entropy
        return Node(
            source, executors, batch, options, clock=clock, entropy=entropy, telemetry=self.telemetry, feel=feel_machine
        )

    def _wants(self, *kinds: str) -> bool:
        return self.options.kinds is None or not set(kinds).isdisjoint(self.options.kinds)

    def _guard(self, name: str) -> Guardian:
        post = Post(self.folder.path / name, files=self.wishes.files)
        return Guardian(post, self.folder.epoch, self.ground.entropy, self.telemetry)

    def make_errands(self, told: Mapping[str, str]) -> Errands | None:
        """Commands of conditions; a node that runs no commands runs none of those either."""
        if not self._wants(*_COMMANDS):
            return None
        home = self._home()
        environment = {**home.environment, **told, **self.options.environment}
        return Errands(
            self._guard("probes"),
            self.ground.clock,
            self.telemetry,
            epoch=self.folder.epoch,
            environment=environment,
            folder=home.folder,
        )

    def _home(self) -> Home:
        return self.wishes.home or find_home()

    def _plan_functions(self, told: Mapping[str, str], settings: Settings) -> FunctionOptions:
        """How functions run: in the environment of commands, with what the settings pass on."""
        wishes, home = self.wishes, self._home().environment
        environment = {**home, **find_passed(settings), **told, **self.options.environment}
        allow = (*wishes.functions.allow, *split_names(settings.allow))
        return replace(
            wishes.functions, folder=self.folder.path / FUNCTIONS, processes=wishes.processes, paths=wishes.paths,
            allow=allow, environment=environment, files=wishes.files,
        )  # fmt: skip

    def _make_functions(self, source: EngineSource, reporting: Reporting, options: FunctionOptions) -> FunctionExecutor:
        return FunctionExecutor(
            options,
            self.ground.clock,
            report=reporting.note,
            read=source.result,
            secrets=self.ground.secrets,
            telemetry=self.telemetry,
        )

    def _make_plugins(self) -> PluginExecutor:
        searched = os.pathsep.join([*self.wishes.paths, *filter(None, sys.path)])
        environment = {**self._home().environment, "PYTHONPATH": searched}
        papers, secrets = self.folder.path / "papers", self.ground.secrets
        guardian, paths, named = self._guard("plugins"), self.wishes.paths, self.wishes.named
        return PluginExecutor(guardian, environment, papers, paths, named, secrets=secrets)


def find_home() -> Home:
    """The user's home, and a plain environment."""
    user = pwd.getpwuid(os.getuid())
    path = _find_ourselves(PLAIN_PATH, Path(sys.executable).parent)
    environment = {"PATH": path, "HOME": user.pw_dir, "LANG": "C.UTF-8", "USER": user.pw_name}
    return Home(environment, Path(user.pw_dir))


def _find_ourselves(path: str, folder: Path) -> str:
    """The path, and behind it the folder of this program if it is found nowhere else: commands speak through it."""
    known = shutil.which("ganger", path=path) is not None or not (folder / "ganger").exists()
    return path if known else f"{path}{os.pathsep}{folder}"
