"""What the commands have in common that a task uses from inside: for which attempt they speak, proved by its token."""

from typing import TYPE_CHECKING

from ganger.cli.opening import find_own

if TYPE_CHECKING:
    from ganger.core.lease import Lease


def find_attempt(store: str | None) -> "Lease":
    """The attempt that this process is part of. BadInput outside of a task, NotAuthenticated if it is not its token."""
    from pathlib import Path

    from ganger.assembly.key import read_key
    from ganger.assembly.location import is_remote
    from ganger.assembly.settings import find_lease, find_token, load
    from ganger.core.errors import BadInput, NotAuthenticated
    from ganger.core.token import read_token

    said, token = find_lease(), find_token()
    if is_remote(load(Path.cwd(), store=store)):
        return _check_far(said, token)
    found = find_own(store)
    if found is None:
        raise BadInput("this store ends with its process: a task cannot reach it from outside")
    lease = read_token(read_key(found), token).lease
    if lease != said:
        raise NotAuthenticated(f"the token is not that of task {said.task}, attempt {said.fence}", task=said.task)
    return lease


def _check_far(said: "Lease", token: str) -> "Lease":
    """Whether the token is good, the server says; here it must be that of the attempt."""
    from ganger.core.errors import NotAuthenticated

    if not token.startswith(f"{said.task}.{said.fence}."):
        raise NotAuthenticated(f"the token is not that of task {said.task}, attempt {said.fence}", task=said.task)
    return said
