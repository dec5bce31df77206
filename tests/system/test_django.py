"""Functions of a Django project: it is set up for them, and a connection that the database ended fails no task."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.servers.postgres import PostgresServer, RunningServer

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
DEADLINE = 60.0
pytestmark = [pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "django.md"
MORE = '''
import logging

from django.db import connection
from django.db.models import Count

from orders.models import Order
from orders.tasks import app


@app.task
def place(what: str) -> int:
    logging.getLogger("orders").debug("nobody asked for this")
    return Order.objects.create(what=what, email="ann@example.org").pk


@app.task
def count() -> int:
    return Order.objects.aggregate(n=Count("pk"))["n"]


@app.task
async def count_async() -> int:
    return await Order.objects.acount()


@app.task
def break_off() -> None:
    """An error that leaves the connection inside a broken transaction."""
    connection.set_autocommit(False)
    connection.cursor().execute("SELECT no_such_column")
'''
MODELS = """
from django.db import models


class Order(models.Model):
    what = models.CharField(max_length=100)
    email = models.EmailField()

    def summary(self) -> str:
        return self.what
"""
SETTINGS = """
DATABASES = {{"default": {database!r}}}
INSTALLED_APPS += ["orders"]
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
"""


@pytest.fixture
def database(postgres: PostgresServer | RunningServer) -> dict[str, Any]:
    """A schema of its own, as Django's settings name it; a connection is kept for as long as it lives."""
    parts = urlsplit(postgres.url(f"django_{os.getpid()}"))
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    found = {
        "ENGINE": "django.db.backends.postgresql", "NAME": parts.path.strip("/"), "USER": parts.username or "",
        "PASSWORD": parts.password or "", "HOST": parts.hostname or asked.get("host", ""), "PORT": parts.port or "",
        "CONN_MAX_AGE": None, "OPTIONS": {"options": f"-c search_path={asked['schema']} -c application_name=shop"},
    }  # fmt: skip
    with _connect(found) as connection:
        connection.execute(f"CREATE SCHEMA {asked['schema']}".encode())
    return found


def _connect(database: dict[str, Any]) -> psycopg.Connection[Any]:
    names = {"host": "HOST", "port": "PORT", "dbname": "NAME", "user": "USER", "password": "PASSWORD"}
    return psycopg.connect(autocommit=True, **{name: database[key] or None for name, key in names.items()})


@pytest.fixture
def project(tmp_path: Path, database: dict[str, Any]) -> Iterator[Path]:
    """A project as Django makes it, with one app and a node that runs its tasks, one process for each way."""
    django = [sys.executable, "-m", "django"]
    subprocess.run([*django, "startproject", "shop", "."], cwd=tmp_path, timeout=DEADLINE, check=True)
    subprocess.run([sys.executable, "manage.py", "startapp", "orders"], cwd=tmp_path, timeout=DEADLINE, check=True)
    (tmp_path / "orders/models.py").write_text(MODELS)
    settings_of_page, tasks_of_page = re.findall(r"```(?:toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "orders/tasks.py").write_text(tasks_of_page)
    (tmp_path / "orders/more.py").write_text(MORE)
    (tmp_path / "ganger.toml").write_text(settings_of_page)
    with (tmp_path / "shop/settings.py").open("a") as settings:
        settings.write(SETTINGS.format(database=database))
    for words in (["makemigrations", "orders"], ["migrate"]):
        subprocess.run([sys.executable, "manage.py", *words], cwd=tmp_path, timeout=DEADLINE, check=True)
    with (tmp_path / "said").open("wb") as said:
        words = [*GANGER, "up", "--slots", "1", "--quiet", "--no-server"]
        node = subprocess.Popen(words, cwd=tmp_path, stdout=said, stderr=said)
        try:
            yield tmp_path
        finally:
            node.terminate()
            node.wait(DEADLINE)


def _call(project: Path, function: str, *args: object) -> int:
    """What a function returned that the project itself called; it is tried once, and its error told."""
    called = f"{function}.delay(*{args!r}).result(timeout={DEADLINE})"
    program = f"from orders.more import *; from orders.tasks import confirm; print('=', {called} or 0)"
    words = [sys.executable, "manage.py", "shell", "-c", program]
    ran = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=DEADLINE, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return int(ran.stdout.rpartition("=")[2])


def _end_connections(database: dict[str, Any]) -> int:
    """Have the server end every connection of the project, as a failover or an idle timeout does."""
    with _connect(database) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'shop'"
        )
        return len(ended.fetchall())


def test_functions_use_models_and_outlive_a_dropped_connection(project: Path, database: dict[str, Any]) -> None:
    assert _call(project, "place", "a book") == 1
    assert _call(project, "count") == 1
    assert _call(project, "count_async") == 1
    assert _call(project, "confirm", 1) == 0

    assert _end_connections(database) >= 2

    assert _call(project, "count") == 1
    assert _call(project, "count_async") == 1
    with pytest.raises(RuntimeError, match="no_such_column"):
        _call(project, "break_off")
    assert _call(project, "place", "another") == 2
    assert "nobody asked" not in _read_logs(project, 1)
    confirmed = _read_logs(project, 4)
    assert "To: ann@example.org" in confirmed
    assert "INFO orders.tasks: confirmed 1" in confirmed


def _read_logs(project: Path, task: int) -> str:
    words = [*GANGER, "logs", str(task)]
    return subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=DEADLINE, check=False).stdout
