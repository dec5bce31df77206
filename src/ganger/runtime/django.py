"""Django under functions and apps: set up once, and its connections looked after as a request would.

A web server opens and closes connections with each request; a process that executes one function after another would
keep one that the database has long ended, and the next function would fail on it. So around each function connections
are closed that have had their time (CONN_MAX_AGE), had an error, or do not answer any more. One in a transaction is
left alone. Django keeps a connection for each thread: this must be called on the thread that the function is on.

Nothing of Django is imported unless a project is named.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any, Final

from ganger.core.errors import BadInput

VARIABLE: Final = "DJANGO_SETTINGS_MODULE"


def set_up(settings: str) -> None:
    """Load the project whose settings the environment names; done before, this does nothing. What it raises is told."""
    try:
        django = import_module("django")
    except ImportError as error:
        said = f"{VARIABLE} is {settings}, and Django cannot be imported here: {error}"
        raise BadInput(f"{said}; install it where the node runs, or unset the variable") from None
    if not import_module("django.apps").apps.ready:
        django.setup()


@contextmanager
def around() -> Iterator[None]:
    """For a function on this thread."""
    _tidy()
    try:
        yield
    finally:
        _tidy()


@asynccontextmanager
async def around_async() -> AsyncIterator[None]:
    """For a coroutine: the asynchronous calls of Django's ORM are made on a thread apart, which is tidied."""
    tidy = import_module("asgiref.sync").sync_to_async(_tidy)
    await tidy()
    try:
        yield
    finally:
        await tidy()


def _tidy() -> None:
    for connection in import_module("django.db").connections.all(initialized_only=True):
        try:
            _close_old(connection)
        except Exception:
            # What the function did is done, and the next one has to get a connection anyhow.
            import_module("logging").getLogger("ganger").exception("a connection of Django could not be closed")


def _close_old(connection: Any) -> None:
    connection.close_if_unusable_or_obsolete()
    if connection.connection is not None and not connection.in_atomic_block and not connection.is_usable():
        connection.close()
