"""How a node starts its guardian: as a process of its own, that no end of the node reaches."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ganger.core.clock import Entropy
from ganger.core.errors import StoreUnavailable
from ganger.node.guardian.folder import RunFolder
from ganger.node.isolation import Isolation

_READY: Final = b"ready\n"
_PATIENCE: Final = 10.0
_PLAIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Post:
    """Where a guardian stands, and what it is told: the most bytes that a stream keeps, how many ms it stays when there
    is nothing to keep, and how many files programs may have open, if not as many as we.
    """

    run: Path
    cap: int = 1 << 30
    linger: int = 60_000
    isolation: Isolation = Isolation.AUTO
    files: int | None = None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(os.path.abspath(self.run))


async def launch(post: Post, entropy: Entropy) -> None:
    """Return when a guardian listens, ours or one that was quicker. StoreUnavailable: none can."""
    try:
        post.folder.prepare(entropy.token)
        said = await _ask(post)
    except OSError as error:
        raise StoreUnavailable(f"no guardian can be started in {post.run}: {error}", run=str(post.run)) from error
    if not said.endswith(_READY) and not said.startswith(b"another guardian"):
        raise StoreUnavailable(_explain(post, said), run=str(post.run))


async def _ask(post: Post) -> bytes:
    """What the guardian says first. Its starter ends with that word; the guardian goes on."""
    starter = await asyncio.create_subprocess_exec(
        *_command(post),
        env={"PATH": _PLAIN_PATH, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            said, _ = await starter.communicate()
    except TimeoutError:
        return b"it still waits for processes of a former guardian to end\n"
    finally:
        # The guardian itself goes on: it waits for what its predecessor left to die, and answers when it has.
        if starter.returncode is None:
            starter.kill()
            await starter.wait()
    return said


def _command(post: Post) -> list[str]:
    settings = ["--cap", str(post.cap), "--linger", str(post.linger), "--isolation", str(post.isolation)]
    settings += [] if post.files is None else ["--files", str(post.files)]
    return [sys.executable, "-P", "-X", "utf8", "-m", "ganger.node.guardian", post.folder.path, *settings]


def _explain(post: Post, said: bytes) -> str:
    reason = said.decode(errors="replace").strip() or f"look into {post.folder.log}"
    return f"the guardian in {post.run} did not start: {reason}"
