"""Is it alive, and can it serve: asked by whoever keeps the process running, without a token."""

from ganger.engine.engine import Engine
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route


def list_health_routes(engine: Engine) -> list[Route]:
    async def live(request: Request) -> Answer:
        return answer_json({"live": True})

    async def ready(request: Request) -> Answer:
        """Reads the store: if it cannot serve, its error is the answer."""
        await engine.tasks([])
        await engine.nodes.all()
        return answer_json({"ready": True})

    return [
        Route("GET", "/health/live", Need.OPEN, live, "Is the process alive"),
        Route("GET", "/health/ready", Need.OPEN, ready, "Can it serve"),
    ]
