"""Answers as Disbatch clients know them: sorted JSON, and errors with the word `error` and the status 400.

An error is a problem document like at the other doors, with `error` and what belongs to it besides: whoever knows only
Disbatch finds what it looks for, and so does everybody else. What is not there is 400 too, but for tasks; what the
server cannot do now keeps the status that says so.
"""

from typing import Any, Final

import msgspec

from ganger.core.errors import GangerError, TaskNotFound
from ganger.faces.http.problem import answer_error
from ganger.faces.http.reply import PROBLEM, Answer, Reply
from ganger.faces.http.request import Request
from ganger.faces.http.routes import Endpoint

_ORDINARY: Final = frozenset({404, 409})
_INDENT: Final = 3


def answer(value: Any, pretty: bool = False) -> Reply:
    body = msgspec.json.encode(value, order="sorted")
    return Reply(200, msgspec.json.format(body, indent=_INDENT) if pretty else body)


def speak(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with errors as clients of this door expect them."""

    async def serve(request: Request) -> Answer:
        try:
            return await endpoint(request)
        except GangerError as error:
            return refuse(error)

    serve.__module__ = endpoint.__module__
    return serve


def refuse(error: GangerError) -> Reply:
    plain = answer_error(error)
    told: dict[str, Any] = msgspec.json.decode(plain.body)
    lost = plain.status in _ORDINARY and not isinstance(error, TaskNotFound)
    status = 400 if lost else plain.status
    more = {name: value for name, value in told.get("fields", {}).items() if name not in told}
    body = {**more, **told, "status": status, "error": told["detail"]}
    return Reply(status, msgspec.json.encode(body, order="sorted"), PROBLEM, plain.headers)
