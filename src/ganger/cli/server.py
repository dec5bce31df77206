"""`ganger server`: the HTTP API and the upkeep of one store, without a node."""

from typing import TYPE_CHECKING, Any

import click

from ganger.cli.opening import take_store

if TYPE_CHECKING:
    from ganger.assembly.server import OpenServer
    from ganger.cli.serving import Doorstep, Ending

take_listen = click.option(
    "--listen", metavar="HOST:PORT", help="Where to listen (default: 127.0.0.1:8470, or a free port if it is taken)."
)
take_log_format = click.option(
    "--log-format", type=click.Choice(("text", "json")), help="Log what happens on standard output (default: not)."
)
take_insecure = click.option("--insecure", is_flag=True, help="Listen to other machines without TLS, all the same.")


@click.command()
@take_store
@take_listen
@take_insecure
@take_log_format
@click.option("--tls-cert", type=click.Path(), metavar="FILE", help="The certificate, a PEM file.")
@click.option("--tls-key", type=click.Path(), metavar="FILE", help="Its key, a PEM file.")
def server(store: str | None, insecure: bool, **given: Any) -> None:
    """Serve the HTTP API until you press Ctrl-C. Tasks run on nodes: start some with `ganger up --no-server`."""
    import asyncio
    import os

    from ganger.cli.serving import Doorstep, Ending
    from ganger.runtime.tuning import make_serving_loop

    doorstep = Doorstep()
    with asyncio.Runner(loop_factory=make_serving_loop) as runner:
        ending = runner.run(_serve({"store": store, **given}, insecure, doorstep))
    if ending is Ending.RESTART:
        doorstep.start_anew(os.execve)


async def _serve(flags: dict[str, str | None], insecure: bool, doorstep: "Doorstep") -> "Ending":
    import asyncio
    import sys
    from contextlib import AsyncExitStack
    from pathlib import Path

    from ganger.assembly.logs import log_facts, open_log, watch_loop
    from ganger.assembly.server import open_backend, open_server
    from ganger.assembly.settings import find_notify, load
    from ganger.cli.serving import Calls, Ending
    from ganger.runtime.notify import Notifier
    from ganger.runtime.tuning import look_for_garbage_seldom

    settings, calls, notifier = load(Path.cwd(), None, **flags), Calls(), Notifier(find_notify())
    async with AsyncExitStack() as stack:
        log = stack.enter_context(open_log(settings, sys.stdout))
        watch_loop(log)
        sock = stack.enter_context(doorstep.bind(settings, insecure=insecure))
        engine = await stack.enter_async_context(open_backend(settings, telemetry=log))
        opened = await stack.enter_async_context(open_server(settings, engine, sock=sock, telemetry=log))
        await stack.enter_async_context(log_facts(engine, log))
        calls.heed()
        await engine.queues.ensure("default", by="ganger server")
        look_for_garbage_seldom()
        announce(opened)
        notifier.tell("READY=1", f"STATUS=serves {opened.url}")
        ending = await calls.next(asyncio.Event().wait())
        notifier.tell("STOPPING=1")
    return ending or Ending.DRAIN


def announce(opened: "OpenServer") -> None:
    """Say where the server is, and where its token is."""
    from ganger.cli.serving import say

    say(f"serving {opened.url}/v1/nodes; stop it with Ctrl-C")
    path = opened.tokens.admin_path
    if path.exists():
        say(f"the administrator's token {'was written to' if opened.made_admin else 'is in'} {path}")
    else:
        say("make a token with `ganger token add`")
