"""What a user may set, and from where: a flag, the environment, `ganger.toml`, else the default; read here alone.

`ganger.toml` is found as git finds its folder: here, or in the nearest folder above.
"""

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec

from ganger.core.address import strip_password
from ganger.core.errors import BadInput
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.lease import Lease
from ganger.runtime.django import VARIABLE as DJANGO

FILE: Final = "ganger.toml"
PREFIX: Final = "GANGER_"
_LARGEST: Final = (1 << 63) - 1
_SECRET: Final = frozenset({"token", "s3_secret"})
_MANY_COLOURS: Final = ("256", "direct", "kitty", "alacritty", "ghostty", "foot")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each field is set in `ganger.toml` by its name, and in the environment by GANGER_ and its name in capitals."""

    store: str = "sqlite:ganger.db"
    """Where the tasks are: `sqlite:<path>`, `postgresql://<user>@<host>/<database>`, `mongodb://<host>/<database>`,
    `memory:` for a store that ends with the process, or the address of a server, `http://host:port`."""

    coordination: str = ""
    """Where locks, leaders and members are kept: an address as that of a store, or `file:<folder>`, or
    `elasticsearch+https://<host>:9200/<index>`; empty means beside the tasks."""

    store_password_file: str = ""
    """A file that has the password of the store's user, and nothing else: then the address needs none."""

    read_url: str = ""
    """A hot standby of a PostgreSQL store, from which lists and counts are read; empty means from the store itself."""

    home: str = ""
    """The folder in which this machine keeps what is its own when a database server has the tasks: tokens, keys, what
    its nodes need; empty means the current folder."""

    url: str = ""
    """The address of a server that has the tasks. It counts in place of `store`, unless a flag or GANGER_STORE names
    one."""

    token: str = ""
    """The token with which a server is asked; in the environment rather than in a file."""

    token_file: str = ""
    """A file that has that token, and nothing else."""

    blobs: str = ""
    """Where large data are: a folder, or `s3://bucket/prefix`; empty means a folder beside the database."""

    s3_endpoint: str = ""
    """The address of the S3 service, `https://host:port`; empty means that of AWS."""

    s3_region: str = ""
    """The region of the bucket; empty means the one that AWS's own variables name."""

    s3_key: str = ""
    """The id of the access key; empty means that AWS's own variables, or the machine's role, say who asks."""

    s3_secret: str = ""
    """The secret of the access key; in the environment rather than in a file."""

    secrets: str = ""
    """The folder of the node's secrets, a file for each; empty means a folder beside the database."""

    apps: str = ""
    """Apps as `module:name`, with commas between them, whose schedules are written when a node comes up."""

    allow: str = ""
    """Patterns with commas between them, as `mypackage.*`, of functions that a node calls although no app has declared
    them."""

    pass_env: str = ""
    """Names of variables, or patterns of them as `AWS_*`, with commas between them, that the functions of a node find
    in their environment as the node does in its own."""

    listen: str = ""
    """Where the server listens, `host:port`; empty means 127.0.0.1:8470, or a free port there if that is taken."""

    hosts: str = ""
    """Names by which the server may be called, besides those of the machine itself, with commas between them."""

    rate: str = "0"
    """How many requests a second one token may make that has no rate of its own; 0 means any number."""

    address_connections: str = "0"
    """How many connections one address may have to the server, a proxy's among them; 0 means 4096, and never more than
    half of what the server can have in all."""

    webhook_hosts: str = ""
    """Hosts, or host:port, with commas between them, that webhooks may reach without TLS or at private addresses."""

    probe_hosts: str = ""
    """Hosts, or host:port, with commas between them, that conditions may ask by URL without TLS or at private
    addresses."""

    tls_cert: str = ""
    """The certificate (chain) of the server, a PEM file; empty means no TLS."""

    tls_key: str = ""
    """The key of the certificate, a PEM file; empty if it is in the same file."""

    job_types: str = ""
    """Types of jobs with commas between them; `frame > film, film` makes results of frame jobs of film."""

    job_batch: str = "1000"
    """How many jobs a batch has."""

    job_tries: str = "3"
    """How often a job is tried."""

    worker_auth: str = "on"
    """Whether workers that come over websockets need a token: `on` or `off`."""

    worker_grace: str = "500ms"
    """How long a worker may take to register."""

    worker_silence: str = "30s"
    """After how long without an answer to status requests a job is taken back from its worker."""

    worker_return: str = "10s"
    """How long the jobs of a worker of protocol 2 wait for it when its connection is lost."""

    worker_frame: str = "68719476736"
    """How many bytes one frame from a worker may have."""

    disbatch: str = "/disbatch"
    """The path under which the routes of a Disbatch command node are; `/` for the root, `off` for none."""

    plugins: str = ""
    """Names of plugins with commas between them, each with what it is behind a `=`, if it is not found by its name:
    `My::Plugin=package.module:Class, Other=/opt/other`."""

    log_format: str = ""
    """How a server or a node logs what happens, on its standard output: `text` or `json`; empty means not at all."""

    log_level: str = "info"
    """The least that functions log by `logging`: `debug`, `info`, `warning`, `error` or `critical`."""

    django: str = ""
    """The settings of the Django project that functions and apps are part of, as `shop.settings`; empty means what
    DJANGO_SETTINGS_MODULE names, if that is set."""

    traces: str = ""
    """Where a server sends traces of tasks: `otlp`, as the variables OTEL_... say; empty means nowhere."""

    grace: str = ""
    """How long a node that drains waits for what runs, as `90s` or `5m`; empty means as long as it takes."""

    keep: str = "7d"
    """How long tasks are kept that have ended, with their results, as `12h` or `30d`; or `forever`."""

    keep_output: str = "1GiB"
    """How much output of tasks is kept in all, the newest, as `500MiB`; or `forever`."""

    keep_disbatch: str = "forever"
    """How long tasks are kept that have ended and that programs of Disbatch made, as `90d`; or `forever`."""

    handover: str = "10m"
    """How long the commands of a node that is restarted wait for the next one of its name."""

    lease: str = ""
    """How long a node may be silent before its tasks go to others, as `2m`; empty means what suits its store."""

    def __repr__(self) -> str:
        """Without what nobody else is to know: whatever fails may show its surroundings."""
        given = ", ".join(f"{name}={_show(name, getattr(self, name))!r}" for name in self.__struct_fields__)
        return f"Settings({given})"


def _show(name: str, value: str) -> str:
    return "***" if name in _SECRET and value else strip_password(value)


def load(folder: Path, environment: Mapping[str, str] | None = None, **flags: str | None) -> Settings:
    """The settings that hold in this folder. Unknown names are refused with the list of known ones."""
    given = os.environ if environment is None else environment
    values: dict[str, Any] = dict(_from_file(folder))
    for name in Settings.__struct_fields__:
        if (text := given.get(PREFIX + name.upper())) is not None:
            values[name] = text
        if (flag := flags.get(name)) is not None:
            values[name] = flag
    if values.get("url") and not (flags.get("store") or given.get(f"{PREFIX}STORE")):
        values["store"] = values["url"]
    return _checked(values)


def names_store(folder: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Is a store named, in the environment or in `ganger.toml`, or does the default hold in this folder?"""
    given = os.environ if environment is None else environment
    file = _from_file(folder)
    return any(given.get(PREFIX + name.upper()) or file.get(name) for name in ("store", "url"))


def _from_file(folder: Path) -> Mapping[str, Any]:
    found = _find_file(folder)
    if found is None:
        return {}
    # Most folders have no such file, and a short command should not pay for reading one.
    import tomllib

    try:
        values = tomllib.loads(found.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{found} is not valid TOML: {error}", file=str(found)) from None
    return _relative_to(found.parent, {name: _read_list(value) for name, value in values.items()})


def _read_list(value: Any) -> Any:
    """A list of texts is the same as the texts with commas between them."""
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return ", ".join(value) if is_list else value


def _find_file(folder: Path) -> Path | None:
    return next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)


def find_places(folder: Path, paths: Iterable[str] = ()) -> tuple[str, ...]:
    """Where functions, plugins and apps are looked for: what was named, this folder, the folder of `ganger.toml`."""
    file = _find_file(folder)
    places = [*(folder / path for path in paths), folder, *([] if file is None else [file.parent])]
    return tuple(dict.fromkeys(os.path.abspath(place) for place in places))


def _relative_to(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Paths in a file are meant from that file's folder, wherever the command is run."""
    scheme, _, path = str(values.get("store", "")).partition(":")
    if scheme == "sqlite" and path and not Path(path).is_absolute():
        values["store"] = f"sqlite:{folder / path}"
    scheme, _, path = str(values.get("coordination", "")).partition(":")
    if scheme in ("sqlite", "file") and path and not Path(path).is_absolute():
        values["coordination"] = f"{scheme}:{folder / path}"
    for name in ("home", "secrets", "store_password_file"):
        if isinstance(found := values.get(name), str) and found:
            values[name] = str(folder / found)
    return values


def _checked(values: Mapping[str, Any]) -> Settings:
    # A number in the file is as good as one in quotes: `job_batch = 10`.
    values = {name: str(value) if type(value) in (int, float) else value for name, value in values.items()}
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        known = ", ".join(Settings.__struct_fields__)
        raise BadInput(f"the settings are wrong: {error}; known settings: {known}") from None


def find_notify(environment: Mapping[str, str] | None = None) -> str | None:
    """Where the service manager that started this process wants to hear of it; None if there is none."""
    return (os.environ if environment is None else environment).get("NOTIFY_SOCKET") or None


def find_inherited(environment: Mapping[str, str] | None = None) -> bool:
    """Has this process been left a socket to listen on, by a service manager or by the program before?"""
    given = os.environ if environment is None else environment
    return given.get("LISTEN_PID") == str(os.getpid()) and given.get("LISTEN_FDS") == "1"


def find_passed(settings: Settings, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What functions find in their environment because the setting `pass_env` names it.

    Secrets of our own must be named in full: nobody who writes a pattern means those.
    """
    patterns = split_names(settings.pass_env)
    unnamed = {name for name in _SECRET if PREFIX + name.upper() not in patterns}
    given = _strip(os.environ if environment is None else environment, unnamed)
    return {name: value for name, value in given.items() if any(fnmatchcase(name, one) for one in patterns)}


def split_names(text: str) -> tuple[str, ...]:
    """The names of a setting that has commas between them."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def find_surroundings() -> dict[str, str]:
    """The environment of this process, for the program that takes its place."""
    return dict(os.environ)


def find_harmless(*, token: bool = False) -> dict[str, str]:
    """The same for a process that imports code of users: without passwords, and without our token if it needs none."""
    return _strip(os.environ, _SECRET - ({"token"} if token else set()))


def _strip(environment: Mapping[str, str], secret: Iterable[str]) -> dict[str, str]:
    """The environment without these settings of our own, and without passwords in addresses of ours."""
    addresses = {PREFIX + name.upper() for name in ("store", "coordination", "read_url", "url")}
    hidden = {PREFIX + name.upper() for name in secret}
    given = {name: value for name, value in environment.items() if name not in hidden}
    return {name: strip_password(value) if name in addresses else value for name, value in given.items()}


def find_lease(environment: Mapping[str, str] | None = None) -> Lease:
    """The lease under which this process speaks: its task and fence are in its environment. BadInput elsewhere."""
    given = os.environ if environment is None else environment
    task, fence = (_whole(given, PREFIX + name) for name in ("TASK", "FENCE"))
    return Lease(TaskId(task), Fence(fence), NodeId(0))


def find_token(environment: Mapping[str, str] | None = None) -> str:
    """The token with which this process speaks: its node put it into its environment. BadInput elsewhere."""
    given = os.environ if environment is None else environment
    name = f"{PREFIX}TOKEN"
    if name not in given:
        raise BadInput(f"this is for use inside a task: {name} is not in the environment", variable=name)
    return given[name]


def find_django(settings: Settings, environment: Mapping[str, str] | None = None) -> str:
    """The settings of the Django project here; empty if there is none."""
    given = os.environ if environment is None else environment
    return settings.django or given.get(DJANGO, "")


def name_django(project: str) -> None:
    """Have the processes that this one starts, and itself, find the project by these settings."""
    os.environ[DJANGO] = project


def set_up_django(folder: Path) -> None:
    """Load the Django project that the settings of this folder name, if they name one."""
    from ganger.runtime.django import set_up

    if project := find_django(load(folder)):
        name_django(project)
        set_up(project)


def count_colours(environment: Mapping[str, str] | None = None) -> int:
    """How many colours a person at a terminal is shown: 256 or 16, none if NO_COLOR is set or it knows none."""
    given = os.environ if environment is None else environment
    terminal = given.get("TERM", "")
    if given.get("NO_COLOR") or terminal == "dumb":
        return 0
    return 256 if given.get("COLORTERM") or any(name in terminal for name in _MANY_COLOURS) else 16


def _whole(given: Mapping[str, str], name: str) -> int:
    text = given.get(name)
    if text is None:
        raise BadInput(f"this is for use inside a task: {name} is not in the environment", variable=name)
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= _LARGEST):
        raise BadInput(f"{name} is {text!r:.40}, which is no number that a node gives", variable=name)
    return int(text)
