"""Describes the routes in OpenAPI 3.1: each decorator says what goes in and comes out.

`describe` puts the whole document together. Its schemas hold the limits of one configuration,
so decorators only name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.routing import APIRoute

from gateway.api.answers import PICTURE_TYPES, answer_schemas
from gateway.api.bodies import request_schemas
from gateway.api.examples import add_examples
from gateway.api.headers import MAYBE, SERVED, headers, possible_headers, request_headers
from gateway.api.schemas import Schema, ref
from gateway.errors import (
    LEAVES,
    CapacityError,
    GatewayError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    OutOfMemory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import APIRouter

    from gateway.runtime import Runtime

VERSION: Final = "3.1.0"
MODEL_NOT_FOUND: Final = "model_not_found"
NOTHING: Final = NotFound.codes[:1]

ABOUT: Final = """\
One endpoint for text-to-image and image-to-image: the input pictures of a request decide which.

A schema says what to send. The reader takes more: chat messages and Hugging Face's inputs on \
every route that takes JSON, the flat fields on every route, forms on the chat and Hugging Face \
routes, JSON without a content type or as `text/plain`, numbers with spaces in forms, words in any \
case, a blank text for a field left out. It also refuses what no schema can say: bytes that are no \
picture, a size out of proportion, more pictures than the limit when all places are counted.

Answers are JSON, or at `/generate` with `Accept: image/*` the picture itself. Errors are JSON."""

TEXTS: Final = (
    (400, "The request has to change; `code` and `param` say where."),
    (404, "There is no such thing here."),
    (408, "The body took too long to arrive."),
    (413, "The body is over the limit."),
    (415, "The content type or encoding is not read."),
    (429, "All waiting places are taken; nothing has begun."),
    (500, "A fault of ours; it was logged."),
    (502, "The worker gave no usable answer."),
    (503, "It cannot be served now; come back later."),
    (504, "No answer in time."),
)


def describe(routers: Iterable[APIRouter], runtime: Runtime, *, version: str) -> dict[str, Any]:
    """Builds the document for the routes of some routers, under the runtime's configuration."""
    paths: dict[str, dict[str, Any]] = {}
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                entry = paths.setdefault(route.path_format, {})
                for method in sorted(route.methods or ()):
                    entry[method.lower()] = _operation_of(route)
    schemas = add_examples(request_schemas(runtime), runtime) | answer_schemas()
    return {
        "openapi": VERSION,
        "info": {"title": "Turnout", "version": version, "description": ABOUT},
        "paths": paths,
        "components": {"schemas": _reachable(schemas, paths), "headers": possible_headers()},
    }


def _operation_of(route: APIRoute) -> dict[str, Any]:
    """Takes what the decorator says as a whole: the framework's own guesses would be wrong."""
    summary, _, more = route.description.partition("\n\n")
    description = {"description": more} if more else {}
    extra = route.openapi_extra or {}
    return {"operationId": route.name, "summary": summary, **description, **extra}


def _reachable(schemas: dict[str, Schema], start: object) -> dict[str, Schema]:
    """Keeps the schemas that somebody points to."""
    found: dict[str, Schema] = {}
    left = [start]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            name = str(item.get("$ref", "")).rpartition("/")[2]
            if name in schemas and name not in found:
                found[name] = schemas[name]
                left.append(schemas[name])
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
    return {name: schema for name, schema in schemas.items() if name in found}


def picture_route(
    answers: dict[str, Any],
    *parameters: dict[str, Any],
    no_code: tuple[str, ...],
    is_path_open: bool = False,
    **bodies: str,
) -> dict[str, Any]:
    """Describes a route that makes pictures.

    `answers` are the contents of a 200 by media type, `bodies` the schemas of a JSON body and of
    a form, `no_code` the error codes that cannot occur here. An open path ends in the caller's own
    words; with a line break among them there is nothing at it.
    """
    kinds = {"json": "application/json", "form": "multipart/form-data"}
    content = {kinds[kind]: {"schema": ref(name)} for kind, name in bodies.items()}
    ok = {
        "description": "The pictures, all of them.",
        "headers": headers(*SERVED, maybe=MAYBE),
        "content": answers,
    }
    leaves = tuple(leaf for leaf in LEAVES if leaf is not MethodNotAllowed)
    missing = (MODEL_NOT_FOUND, *NOTHING) if is_path_open else (MODEL_NOT_FOUND,)
    without = tuple(code for code in NotFound.codes if code not in missing) + no_code
    return {
        "tags": ["pictures"],
        "parameters": [*request_headers(), *parameters],
        "requestBody": {"required": True, "content": content},
        "responses": {"200": ok, **errors(*leaves, without=without, maybe=(*SERVED, *MAYBE))},
    }


def reading_route(
    tag: str,
    answers: dict[str, dict[str, Any]],
    *parameters: dict[str, Any],
    codes: tuple[str, ...] = (),
    sent: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Describes a route that only reads: the contents of its answers by status.

    `codes` are the ways in which there may be nothing, `sent` the headers of a success.
    """
    responses = {
        status: {
            "description": "What was asked for." if status == "200" else "The same, of nobody up.",
            "headers": headers(*sent),
            "content": content,
        }
        for status, content in answers.items()
    }
    without = tuple(code for code in NotFound.codes if code not in codes)
    responses |= errors(NotFound, GatewayError, without=without)
    return {"tags": [tag], "parameters": list(parameters), "responses": responses}


def acting_route(
    answer: str, *parameters: dict[str, Any], status: str = "200", body: str | None = None
) -> dict[str, Any]:
    """Describes a route by which an operator changes something: the schemas of both bodies."""
    ok = {"description": "It is done.", "headers": headers(), "content": json_of(answer)}
    leaves = (InvalidRequest, *([NotFound] if parameters else []), GatewayError)
    without = (*InvalidRequest.codes[1:], *(code for code in NotFound.codes if code not in NOTHING))
    route: dict[str, Any] = {"tags": ["admin"], "parameters": list(parameters)}
    if body is not None:
        content = {"application/json": {"schema": ref(body)}}
        route["requestBody"] = {"required": True, "content": content}
    return route | {"responses": {status: ok, **errors(*leaves, without=without)}}


def errors(
    *leaves: type[GatewayError], without: tuple[str, ...] = (), maybe: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Describes the answers to errors by status, each with the codes that it may have."""
    found: dict[str, Any] = {}
    for status, text in TEXTS:
        raised = [leaf for leaf in leaves if leaf.status == status]
        codes = [code for leaf in raised for code in leaf.codes if code not in without]
        if not codes:
            continue
        waits = all(issubclass(leaf, CapacityError | OutOfMemory) for leaf in raised)
        stays = not any(leaf.resend_safe for leaf in raised)
        required = ["retry-after"] * waits + ["x-should-retry"] * stays
        narrowed = {"code": {"enum": codes}, "type": {"enum": sorted({r.type for r in raised})}}
        schema = {"properties": {"error": {"properties": narrowed}}}
        found[str(status)] = {
            "description": text,
            "headers": headers(*required, maybe=maybe),
            "content": {"application/json": {"schema": {"allOf": [ref("Error"), schema]}}},
        }
    return found


def json_of(name: str) -> dict[str, Any]:
    """Describes a JSON answer by the name of its schema."""
    return {"application/json": {"schema": ref(name)}}


def events_of(name: str) -> dict[str, Any]:
    """Describes a stream of chunks by the name of their schema; OpenAPI 3.1 knows one event."""
    chunk = {"contentMediaType": "application/json", "contentSchema": ref(name)}
    event = {
        "type": "object",
        "description": "One event; its data is a chunk, and at the end the word [DONE].",
        "properties": {"data": {"type": "string", "anyOf": [{"const": "[DONE]"}, chunk]}},
        "required": ["data"],
    }
    return {"text/event-stream": {"schema": event}}


def named_events(**schemas: str) -> dict[str, Any]:
    """Describes a stream of named events by the names of their schemas."""
    kinds = [
        {
            "type": "object",
            "properties": {
                "event": {"const": event},
                "data": {"contentMediaType": "application/json", "contentSchema": ref(name)},
            },
            "required": ["event", "data"],
        }
        for event, name in schemas.items()
    ]
    text = "Progress as it comes; the last event is the answer, or the error."
    return {"text/event-stream": {"schema": {"description": text, "oneOf": kinds}}}


def pictures() -> dict[str, Any]:
    """Describes an answer that is the picture itself."""
    return {kind: {"schema": {"type": "string", "format": "binary"}} for kind in PICTURE_TYPES}


def path_parameter(name: str, schema: Schema, text: str) -> dict[str, Any]:
    """Describes a part of a path."""
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def query_parameter(name: str, text: str) -> dict[str, Any]:
    """Describes a part of a query."""
    return {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
