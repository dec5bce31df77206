"""Servers that send back what they get: uvicorn with the barest application, and with Starlette's."""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application and nothing else."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message.get("more_body", False)
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def make_starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    return Starlette(routes=[Route("/v1/nodes", echo, methods=["POST"])])


def main(name: str) -> None:
    """Serve on a free port of loopback; the port is the first line that is printed."""
    app = make_starlette() if name == "starlette" else bare
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(sock.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app, http="httptools", loop="uvloop", lifespan="off", interface="asgi3", access_log=False, log_level="warning"
    )
    uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main(sys.argv[1])
