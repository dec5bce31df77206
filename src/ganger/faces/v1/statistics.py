"""How much there is to do, queue by queue, for people and for whatever starts nodes."""

from typing import Any, Final

from ganger.core.errors import BadInput
from ganger.engine.figures import Figures, Meter
from ganger.faces.http.grants import Need
from ganger.faces.http.news import News
from ganger.faces.http.reply import Answer, answer_json
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Route, word
from ganger.faces.v1.reports import count_states
from ganger.wire.v1 import shapes

_MOST_SLOTS: Final = 100_000
_PARAMETERS: Final = frozenset({"slots"})


def list_stat_routes(meter: Meter, news: News) -> list[Route]:
    async def show(request: Request) -> Answer:
        figures = await meter.read(_read_slots(request.query.get("slots")))
        return answer_json({"queues": [_tell(one) for one in figures], "last_event": str(await news.mark())})

    words = "How deep, how old and how fast each queue is, and how many nodes it could use"
    route = Route("GET", "/v1/stats", Need.READ, show, words, _PARAMETERS, answer=shapes.Stats)
    return word([route], shapes.PARAMETERS)


def _tell(figures: Figures) -> dict[str, Any]:
    return {
        "queue": figures.queue.name,
        **count_states(figures.counts),
        "facts": figures.facts,
        "paused": figures.paused,
        "ready": figures.ready,
        "running": figures.running,
        "claimed": figures.claimed,
        "oldest_ready": figures.oldest,
        "rates": figures.rates,
        "wanted_slots": figures.wanted_slots,
        "wanted_workers": figures.wanted_workers,
    }


def _read_slots(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and 0 < int(text) <= _MOST_SLOTS):
        raise BadInput(f"slots is {text!r:.80}; give a number from 1 to {_MOST_SLOTS}", field="slots")
    return int(text)
