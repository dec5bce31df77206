"""Where a worker of jobs works, and who it is."""

from typing import NamedTuple


class Place(NamedTuple):
    """`url` begins with http or https, as that of the server. `identity` stays the same over restarts."""

    url: str
    token: str
    name: str
    identity: str
    job_type: str | None = None

    @property
    def address(self) -> str:
        typed = "" if self.job_type is None else f"/{self.job_type}"
        return f"ws{self.url.removeprefix('http').rstrip('/')}/api/worker{typed}"
