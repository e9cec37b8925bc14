"""Describes whole request bodies in JSON Schema: ours, chat's and Hugging Face's, and forms.

Knows nothing of routes; the fields come from `schemas`.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.api.schemas import (
    BRACKETED,
    FIELDS,
    Schema,
    field_schemas,
    form_schemas,
    image_schemas,
    model_names,
    ref,
)
from gateway.routing.places import IMAGE_FIELDS
from gateway.routing.shapes import CHAT_SETTINGS, PARAMETERS_DROPPED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.runtime import Runtime

FACE_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "ChatRequest": MappingProxyType({"stream": {"type": ["boolean", "null"]}}),
        # One picture is the whole answer there.
        "HubRequest": MappingProxyType(
            {"n": {"enum": [1, None]}, "response_format": {"enum": ["b64_json", None]}}
        ),
    }
)
"""Fields that one route alone reads otherwise."""


def request_schemas(runtime: Runtime) -> dict[str, Schema]:
    """Builds the schemas of all request bodies, with the limits of this configuration."""
    fields = field_schemas(runtime)
    places = {name: ref("InputImages") for name in (*IMAGE_FIELDS, BRACKETED)}
    flat = fields | places
    return {
        "ModelName": {"type": "string", "enum": model_names(runtime)},
        **image_schemas(runtime),
        "GenerateRequest": _body(runtime, flat, patterns=True),
        "EditRequest": _with_image(_body(runtime, flat, patterns=True), ref("Pictures")),
        "GenerateForm": _body(runtime, form_schemas(runtime, fields)),
        "EditForm": _with_image(_body(runtime, form_schemas(runtime, fields))),
        "ChatRequest": _chat(runtime, flat),
        "HubRequest": _hub(runtime, flat),
    }


def _body(runtime: Runtime, fields: Mapping[str, Schema], *, patterns: bool = False) -> Schema:
    """Builds an object of fields, open for others only where unknown ones are ignored."""
    required = ["prompt", "model"] if len(runtime.config.models) > 1 else ["prompt"]
    schema: Schema = {
        "type": "object",
        "properties": dict(fields),
        "required": [name for name in required if name in fields],
        "additionalProperties": runtime.config.limits.unknown_fields == "ignore",
    }
    if {"width", "height"} <= fields.keys():
        schema["dependentRequired"] = {"width": ["height"], "height": ["width"]}
    if patterns:
        names = "|".join(map(re.escape, IMAGE_FIELDS))
        schema["patternProperties"] = {rf"^({names})\[[0-9]*\]$": ref("InputImages")}
    return schema


def _with_image(schema: Schema, picture: Schema | None = None) -> Schema:
    """Asks for at least one input picture, wherever it stands."""
    places = (name for name in schema["properties"] if name in (*IMAGE_FIELDS, BRACKETED))
    return schema | {
        "anyOf": [
            {"required": [name], "properties": {name: picture} if picture else {}}
            for name in places
        ]
    }


def _chat(runtime: Runtime, flat: Mapping[str, Schema]) -> Schema:
    fields = {name: schema for name, schema in flat.items() if name != "prompt"}
    for name, change in FACE_FIELDS["ChatRequest"].items():
        fields[name] = {"description": FIELDS[name], "default": False, **change}
    fields |= {name: {"description": "A text model's; changes nothing."} for name in CHAT_SETTINGS}
    text = {
        "type": "object",
        "properties": {"type": {"const": "text"}, "text": flat["prompt"]},
        "required": ["type", "text"],
    }
    image = {
        "type": "object",
        "properties": {
            "type": {"const": "image_url"},
            "image_url": {
                "type": "object",
                "properties": {"url": ref("PictureText"), "detail": {"type": "string"}},
                "required": ["url"],
            },
        },
        "required": ["type", "image_url"],
    }
    content = [flat["prompt"], {"type": "array", "items": {"anyOf": [text, image]}, "minItems": 1}]
    message = {
        "type": "object",
        "properties": {"role": {"type": "string"}, "content": {"anyOf": content}},
        "required": ["role", "content"],
    }
    messages = {
        "type": "array",
        "description": "The last user message with a text is the prompt; the images of all "
        "messages are input pictures.",
        "items": message,
        "contains": {
            "type": "object",
            "properties": {
                "role": {"const": "user"},
                "content": {
                    "anyOf": [flat["prompt"], {"type": "array", "contains": text, "minItems": 1}]
                },
            },
            "required": ["role", "content"],
        },
        "minItems": 1,
    }
    extra = _body(runtime, fields, patterns=True) | {
        "description": "Fields of the request, as SDKs nest them.",
        "required": [],
    }
    body = _body(runtime, {"messages": messages, **fields, "extra_body": extra}, patterns=True)
    return body | {"required": ["messages", *body["required"]]}


def _hub(runtime: Runtime, flat: Mapping[str, Schema]) -> Schema:
    fields = dict(flat)
    del fields["model"]  # the path names it
    for name, change in FACE_FIELDS["HubRequest"].items():
        fields[name] = {"description": FIELDS[name], **change}
    sides = {name: fields[name] for name in ("width", "height")}
    fields["target_size"] = _body(runtime, sides)
    fields |= {name: {"description": "Changes nothing."} for name in PARAMETERS_DROPPED}
    edit = _body(runtime, fields, patterns=True)
    del fields["prompt"]
    settings = _body(runtime, fields, patterns=True)
    options = {"description": "The hosted service's; changes nothing."}

    def shape(inputs: Schema, parameters: Schema, *required: str) -> Schema:
        members = {"inputs": inputs, "parameters": parameters, "options": options}
        return _body(runtime, members) | {"required": ["inputs", *required]}

    return {
        "anyOf": [
            {"title": "A text", **shape(flat["prompt"], settings)},
            {"title": "A picture", **shape(ref("InputImages"), edit, "parameters")},
        ]
    }
