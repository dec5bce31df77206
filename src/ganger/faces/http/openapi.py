"""The description of an API (OpenAPI 3.1), made from the table of routes and the types that its requests are read by.

The page is plain HTML without a script: whoever opens it needs nothing from elsewhere.
"""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ganger.faces.http.grants import Need
from ganger.faces.http.reply import TEXT, Answer, Reply
from ganger.faces.http.request import WEBSOCKET, Request
from ganger.faces.http.routes import Route

PATH: Final = "/openapi.json"
PAGE: Final = "/docs"
_HTML: Final = b"text/html; charset=utf-8"
_POLICY: Final = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
_OPEN_PART: Final = re.compile(r"\{(\w+)\}")
_SCHEMAS: Final = "#/components/schemas/{name}"
_PROBLEM: Final = "Problem"


class Wording(NamedTuple):
    """What the table does not say: the version, the type of an error, and types that others refer to by their names."""

    version: str
    problem: type
    others: tuple[type, ...] = ()


def describe(routes: Sequence[Route], wording: Wording) -> dict[str, Any]:
    """The document."""
    types = [kind for route in routes for kind in _list_types(route) if kind is not None]
    named = [wording.problem, *wording.others]
    schemas, components = msgspec.json.schema_components([*types, *named], ref_template=_SCHEMAS)
    found = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        told = _Types(*(next(found) if kind is not None else None for kind in _list_types(route)))
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, told)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ganger", "version": wording.version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Types(NamedTuple):
    """What a route takes and gives: its types, or their schemas."""

    body: Any
    answer: Any
    asks: Any


def _list_types(route: Route) -> _Types:
    return _Types(route.body, route.answer, route.asks)


def _operation(route: Route, types: _Types) -> dict[str, Any]:
    told: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-z0-9]+', '_', route.path)}".rstrip("_"),
        "parameters": [*_path_parameters(route), *_query_parameters(route, types.asks)],
        "responses": _responses(route, types.answer),
    }
    if route.need is not Need.OPEN:
        told |= {"security": [{"token": []}], "x-scope": route.need.value}
    if types.body is not None:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": types.body}}}
    return told


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name, "in": "path", "required": True, "description": route.texts[f"{{{name}}}"],
            "schema": {"type": "string"},
        }
        for name in _OPEN_PART.findall(route.path)
    ]  # fmt: skip


def _query_parameters(route: Route, asks: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "description": route.texts[name], **_type_parameter(name, asks)}
        for name in sorted(route.parameters)
    ]


def _type_parameter(name: str, asks: Any) -> dict[str, Any]:
    if name == "ask" and asks is not None:
        return {"required": True, "content": {"application/json": {"schema": asks}}}
    return {"schema": {"type": "string"}}


def _responses(route: Route, answer: Any) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": _SCHEMAS.format(name=_PROBLEM)}}}
    content = {} if route.status == 204 else {"content": {route.kind.decode(): {"schema": answer or {}}}}
    return {
        str(route.status): {"description": route.summary, **content},
        **{str(status): {"description": "The same, with nothing to tell"} for status in route.also},
        "default": {"description": "What went wrong", "content": problem},
    }


def list_description_routes(routes: Sequence[Route], wording: Wording) -> list[Route]:
    """The routes that show the description of the others. It is written once."""
    document = describe([route for route in routes if route.method != WEBSOCKET], wording)
    whole, page = Reply(200, msgspec.json.encode(document)), Reply(200, draw_page(document), _HTML, (_POLICY,))

    async def show_document(request: Request) -> Answer:
        return whole

    async def show_page(request: Request) -> Answer:
        return page

    async def lead_on(request: Request) -> Answer:
        return Reply(303, b"", TEXT, ((b"location", PAGE.encode()),))

    return [
        Route("GET", "/", Need.OPEN, lead_on, "Leads to the description", kind=TEXT, status=303),
        Route("GET", PATH, Need.OPEN, show_document, "The description of this API"),
        Route("GET", PAGE, Need.OPEN, show_page, "The same, for people", kind=_HTML),
    ]


def draw_page(document: Mapping[str, Any]) -> bytes:
    operations = [
        _draw(method, path, told) for path, methods in document["paths"].items() for method, told in methods.items()
    ]
    schemas = [_draw_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return _PAGE.format(
        title=html.escape(f"{document['info']['title']} {document['info']['version']}"),
        operations="".join(operations),
        schemas="".join(schemas),
    ).encode()


def _draw(method: str, path: str, told: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(one['name'])}</code><td>{one['in']}<td>{html.escape(one.get('description', ''))}"
        for one in told["parameters"]
    )
    sent = _draw_content("Body", told.get("requestBody", {}).get("content", {}))
    status, answer = next(iter(told["responses"].items()))
    answered = _draw_content(f"Answer {status}", answer.get("content", {}))
    return (
        f"<section><h2><b>{method.upper()}</b> {html.escape(path)}</h2><p>{html.escape(told['summary'])}. "
        f"Scope: {told.get('x-scope', 'none')}.</p>{f'<table>{rows}</table>' if rows else ''}{sent}{answered}</section>"
    )


def _draw_content(title: str, content: Mapping[str, Any]) -> str:
    return "".join(
        f"<p>{title}, {html.escape(kind)}: <code>{_link(msgspec.json.encode(body['schema']).decode())}</code></p>"
        for kind, body in content.items()
    )


def _draw_schema(name: str, schema: Mapping[str, Any]) -> str:
    text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
    return f'<h3 id="{html.escape(name)}">{html.escape(name)}</h3><pre>{_link(text)}</pre>'


def _link(text: str) -> str:
    """The text, with its references as links."""
    safe = html.escape(text, quote=False)
    return re.sub(r'\{\s*"\$ref":\s*"#/components/schemas/(\w+)"\s*\}', r'<a href="#\1">\1</a>', safe)


_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
section {{ border-top: 1px solid #8884; padding: .5rem 0 }} h2 {{ font-size: 1.1rem }} h2 b {{ color: #2a7 }}
td {{ padding: .1rem 1rem .1rem 0; vertical-align: top }} pre {{ overflow-x: auto; background: #8881; padding: 1rem }}
</style><h1>{title}</h1>{operations}<h1>Types</h1>{schemas}</html>"""
