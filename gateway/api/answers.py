"""Describes answer bodies in JSON Schema: ours, OpenAI's, and the errors."""

from __future__ import annotations

from typing import Final

from gateway.api.headers import HEADERS
from gateway.api.schemas import Schema, read_by, ref
from gateway.routing.fields import PARSERS
from gateway.routing.request import Task

PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/webp")


def answer_schemas() -> dict[str, Schema]:
    """Builds the schemas of all answer bodies."""
    return {
        "Error": _closed(
            error=_closed(
                message={"type": "string", "minLength": 1},
                type={"type": "string"},
                param={"type": ["string", "null"]},
                code={"type": "string"},
            )
        ),
        "Timings": _closed(
            queue_seconds=_seconds(), worker_seconds=_seconds(), total_seconds=_seconds()
        ),
        "GenerateAnswer": _closed(
            id=_id(),
            created={"type": "integer"},
            **_extras(),
            output_format=_format(),
            data=_pictures({"seed": ref("Seed")}),
        ),
        "Seed": read_by(PARSERS["seed"]),
        "Usage": _closed(
            input_tokens=_count(),
            input_tokens_details=_closed(image_tokens=_count(), text_tokens=_count()),
            output_tokens=_count(),
            total_tokens=_count(),
        ),
        "ImagesAnswer": _closed(
            "usage",
            created={"type": "integer"},
            background={"const": "opaque"},
            output_format=_format(),
            size=_size(),
            data=_pictures({}),
            usage=ref("Usage"),
            turnout=_closed(id=_id(), **_extras(), seeds={"type": "array", "items": ref("Seed")}),
        ),
        "ChatAnswer": _closed(
            id={"type": "string"},
            created={"type": "integer"},
            model=ref("ModelName"),
            object={"const": "chat.completion"},
            choices={"type": "array", "items": _choice(), "minItems": 1, "maxItems": 1},
            usage={"anyOf": [_chat_usage(), {"type": "null"}]},
        ),
        "ChatChunk": _closed(
            "usage",
            id={"type": "string"},
            created={"type": "integer"},
            model=ref("ModelName"),
            object={"const": "chat.completion.chunk"},
            choices={"type": "array", "items": _delta(), "maxItems": 1},
            usage=_chat_usage(),
        ),
        **_status_schemas(),
    }


def _status_schemas() -> dict[str, Schema]:
    pool = {
        "ready": {"type": "boolean"},
        "workers": _count(),
        "available": _count(),
        "missing": {"type": ["string", "null"]},
    }
    worker = {
        "name": {"type": "string"},
        "health": {"type": "string"},
        "capacity": _count(),
        "in_flight": _count(),
        "tasks": {"anyOf": [_tasks(), {"type": "null"}]},
        "text_only": {"type": "boolean"},
    }
    state = {
        "missing": {"type": ["string", "null"]},
        "tasks": _tasks(),
        "waiting": _count(),
        "queue_limit": _count(),
        "encoder": {"type": ["string", "null"]},
        "workers": {"type": "array", "items": _closed(**worker)},
    }
    return {
        "Alive": _closed(status={"const": "alive"}),
        "Readiness": _closed(
            ready={"type": "boolean"},
            pools={"type": "object", "additionalProperties": _closed(**pool)},
        ),
        "Model": _closed(
            id=ref("ModelName"),
            object={"const": "model"},
            created={"type": "integer"},
            owned_by={"type": "string"},
        ),
        "ModelList": _closed(
            object={"const": "list"}, data={"type": "array", "items": ref("Model")}
        ),
        "Pools": {"type": "object", "additionalProperties": _closed(**state)},
    }


def _closed(*optional: str, **members: Schema) -> Schema:
    """Builds an object with exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
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
    kinds = [_closed(b64_json=base64, **more), _closed(url={"type": "string"}, **more)]
    return {"type": "array", "items": {"oneOf": kinds}, "minItems": 1}


def _message() -> Schema:
    part = _closed(type={"const": "image_url"}, image_url=_closed(url={"type": "string"}))
    return _closed(role={"const": "assistant"}, content={"type": "array", "items": part})


def _choice() -> Schema:
    return _closed(index={"const": 0}, message=_message(), finish_reason={"const": "stop"})


def _delta() -> Schema:
    reason = {"enum": ["stop", None]}
    delta = {"anyOf": [_message(), _closed()]}
    return _closed(index={"const": 0}, delta=delta, finish_reason=reason)


def _chat_usage() -> Schema:
    return _closed(prompt_tokens=_count(), completion_tokens=_count(), total_tokens=_count())


def _tasks() -> Schema:
    return {"type": "array", "items": {"enum": [task.value for task in Task]}}


def _id() -> Schema:
    return {"type": "string", "pattern": HEADERS["x-request-id"][0]}


def _size() -> Schema:
    return {"type": "string", "pattern": "^[0-9]+x[0-9]+$"}


def _format() -> Schema:
    return {"enum": [kind.removeprefix("image/") for kind in PICTURE_TYPES]}


def _count() -> Schema:
    return {"type": "integer", "minimum": 0}


def _seconds() -> Schema:
    return {"type": "number", "minimum": 0}
