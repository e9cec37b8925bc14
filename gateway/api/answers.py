"""Describes answer bodies in JSON Schema: ours, OpenAI's, and the errors."""

from __future__ import annotations

from typing import Final

from gateway.api.headers import HEADERS
from gateway.api.schemas import Schema, closed, count, read_by, ref, seconds
from gateway.api.states import state_schemas
from gateway.routing.fields import PARSERS
from gateway.routing.request import Task

PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/webp")


def answer_schemas() -> dict[str, Schema]:
    """Builds the schemas of all answer bodies."""
    return {
        "Error": closed(
            error=closed(
                message={"type": "string", "minLength": 1},
                type={"type": "string"},
                param={"type": ["string", "null"]},
                code={"type": "string"},
            )
        ),
        "Timings": closed(
            queue_seconds=seconds(), worker_seconds=seconds(), total_seconds=seconds()
        ),
        "GenerateAnswer": closed(
            id=_id(),
            created={"type": "integer"},
            **_extras(),
            output_format=_format(),
            data=_pictures({"seed": ref("Seed")}),
        ),
        "Seed": read_by(PARSERS["seed"]),
        "Usage": closed(
            input_tokens=count(),
            input_tokens_details=closed(image_tokens=count(), text_tokens=count()),
            output_tokens=count(),
            total_tokens=count(),
        ),
        "ImagesAnswer": closed(
            "usage",
            created={"type": "integer"},
            background={"const": "opaque"},
            output_format=_format(),
            size=_size(),
            data=_pictures({}),
            usage=ref("Usage"),
            turnout=closed(id=_id(), **_extras(), seeds={"type": "array", "items": ref("Seed")}),
        ),
        "ChatAnswer": closed(
            id={"type": "string"},
            created={"type": "integer"},
            model=ref("ModelName"),
            object={"const": "chat.completion"},
            choices={"type": "array", "items": _choice(), "minItems": 1, "maxItems": 1},
            usage={"anyOf": [_chat_usage(), {"type": "null"}]},
        ),
        "ChatChunk": closed(
            "usage",
            id={"type": "string"},
            created={"type": "integer"},
            model=ref("ModelName"),
            object={"const": "chat.completion.chunk"},
            choices={"type": "array", "items": _delta(), "maxItems": 1},
            usage=_chat_usage(),
        ),
        **state_schemas(),
    }


def _extras() -> dict[str, Schema]:
    return {
        "task": {"enum": [task.value for task in Task]},
        "pool": {"type": "string"},
        "model": ref("ModelName"),
        "size": _size(),
        "seed": ref("Seed"),
        "timings": ref("Timings"),
    }


def _pictures(more: dict[str, Schema]) -> Schema:
    base64 = {"type": "string", "contentEncoding": "base64"}
    kinds = [closed(b64_json=base64, **more), closed(url={"type": "string"}, **more)]
    return {"type": "array", "items": {"oneOf": kinds}, "minItems": 1}


def _message() -> Schema:
    part = closed(type={"const": "image_url"}, image_url=closed(url={"type": "string"}))
    return closed(role={"const": "assistant"}, content={"type": "array", "items": part})


def _choice() -> Schema:
    return closed(index={"const": 0}, message=_message(), finish_reason={"const": "stop"})


def _delta() -> Schema:
    reason = {"enum": ["stop", None]}
    delta = {"anyOf": [_message(), closed()]}
    return closed(index={"const": 0}, delta=delta, finish_reason=reason)


def _chat_usage() -> Schema:
    return closed(prompt_tokens=count(), completion_tokens=count(), total_tokens=count())


def _id() -> Schema:
    return {"type": "string", "pattern": HEADERS["x-request-id"][0]}


def _size() -> Schema:
    return {"type": "string", "pattern": "^[0-9]+x[0-9]+$"}


def _format() -> Schema:
    return {"enum": [kind.removeprefix("image/") for kind in PICTURE_TYPES]}
