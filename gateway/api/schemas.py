"""Describes the fields of requests in JSON Schema, out of the tables by which they are read.

A schema says what to send; the reader takes a few more spellings, and they are not listed here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.routing.fields import ACCEPTED, PARSERS, REFUSED, Choice, Flag, Number, Parser, Text
from gateway.routing.places import IMAGE_FIELDS, LABELS
from gateway.routing.request import ImageRequest
from gateway.routing.size import MAX_ASPECT, MIN_SIDE

if TYPE_CHECKING:
    from gateway.runtime import Runtime

Schema = dict[str, Any]

BRACKETED: Final = "image[]"
"""The one name with brackets that a schema can ask for; OpenAI's clients use it."""

FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "prompt": "What to paint, or what to change in the input pictures.",
        "negative_prompt": "What to keep out; GLM-Image has none, so workers report it ignored.",
        "model": "A model's name or alias; needed where there are several.",
        "size": "Width and height of the result in pixels. Without one, or with `auto`, an edit "
        "takes the first picture's size, rounded to the model's step.",
        "width": "Width of the result in pixels; together with `height`, instead of `size`.",
        "height": "Height of the result in pixels; together with `width`, instead of `size`.",
        "n": "Number of pictures, single runs with the seeds s, s + 1, ….",
        "seed": "Seed of the first picture; without one it is drawn and reported.",
        "num_inference_steps": "Denoising steps; without them `quality` or the worker decides.",
        "guidance_scale": "Weight of the prompt; without it the worker decides.",
        "output_format": "Format of the pictures; without it what `Accept` names, else png.",
        "output_compression": "Compression of jpeg and webp; without it the worker decides.",
        "response_format": "Pictures as base64 in the answer, or as links that expire.",
        "quality": "A number of steps in OpenAI's words; `num_inference_steps` counts before it.",
        "background": "Checked, and changes nothing: pictures are opaque.",
        "partial_images": "Checked, and changes nothing: pictures come whole.",
        "stream": "Whether the answer is a stream of events; on the chat route alone.",
        "user": "Accepted; changes nothing.",
        "safety_identifier": "Accepted; changes nothing.",
        "moderation": "Accepted; changes nothing.",
        "style": "Accepted; changes nothing.",
        "input_fidelity": "Accepted; changes nothing.",
        "complexity": "Accepted; changes nothing.",
    }
)
"""What each field means, in a sentence."""


def field_schemas(runtime: Runtime) -> dict[str, Schema]:
    """Lists every field of the tables as JSON takes it; null stands for a field left out."""
    found: dict[str, Schema] = {}
    for name, parser in PARSERS.items():
        found[name] = _nullable(_limited(runtime, name, read_by(parser)))
    for name in sorted(ACCEPTED):
        found[name] = {}
    for name, reason in REFUSED.items():
        found[name] = {
            "description": f"Refused: {reason}.",
            "x-turnout": "refused",
            "deprecated": True,
            "enum": [None, False, ""],
        }
    defaults = {each.name: each.default for each in dataclasses.fields(ImageRequest)}
    for name, schema in found.items():
        if name not in REFUSED:
            schema["description"] = f"{FIELDS[name]} {schema.get('description', '')}".strip()
        if (default := defaults.get(name)) not in (None, dataclasses.MISSING):
            schema["default"] = default
    return found


def read_by(parser: Parser) -> Schema:
    """Tells what a parser takes."""
    match parser:
        case Number(low, high, whole):
            return {"type": "integer" if whole else "number", "minimum": low, "maximum": high}
        case Choice(allowed, also):
            return {"type": "string", "enum": [*allowed, *dict(also)]}
        case Text():
            return {"type": "string"}
        case Flag():
            return {"type": "boolean"}


def _limited(runtime: Runtime, name: str, schema: Schema) -> Schema:
    """Narrows a field to what this configuration, and every route but one, takes of it."""
    models = runtime.config.models.values()
    if name in ("prompt", "negative_prompt"):
        schema["maxLength"] = runtime.config.limits.max_prompt_chars
    if name == "prompt":
        schema |= {"minLength": 1, "pattern": r"\S"}
    elif name == "model":
        schema["enum"] = model_names(runtime)
    elif name == "size":
        sizes = " or ".join(sorted({model.default_size for model in models}))
        sides = " or ".join(f"{side}" for side in sorted({model.max_side for model in models}))
        schema |= {
            "pattern": r"^(auto|[0-9]{1,6}x[0-9]{1,6})$",
            "format": "size",
            "description": f"Sides from {MIN_SIDE} to {sides} pixels, one at most {MAX_ASPECT} "
            f"times the other; a text without a size gives {sizes}.",
        }
    elif name in ("width", "height"):
        schema |= {"minimum": MIN_SIDE, "maximum": max(model.max_side for model in models)}
    elif name == "stream":
        schema["enum"] = [False]
    return schema


def _nullable(schema: Schema) -> Schema:
    enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    if schema.get("minLength"):
        return schema  # one that has to be given
    return schema | {"type": [schema["type"], "null"]} | enum


def model_names(runtime: Runtime) -> list[str]:
    """Lists every name by which clients may ask for a model."""
    models = runtime.config.models.items()
    return [name for key, model in models for name in (key, *model.aliases)]


def form_schemas(runtime: Runtime, fields: Mapping[str, Schema]) -> dict[str, Schema]:
    """Lists the fields as a form takes them: an empty text stands for a field left out."""
    form: dict[str, Schema] = {}
    for name, schema in fields.items():
        if name in ACCEPTED:
            form[name] = schema | {"type": "string"}
        elif name in REFUSED:
            form[name] = schema | {"enum": ["", "false"]}
        else:
            kinds = schema["type"]
            form[name] = schema | {"type": kinds[0] if isinstance(kinds, list) else kinds}
            if "enum" in schema:
                form[name]["enum"] = [value for value in schema["enum"] if value is not None]
    part = {"type": "string", "format": "binary", "description": "A PNG, JPEG or WebP picture."}
    for name in IMAGE_FIELDS:
        form[name] = part
    form[BRACKETED] = {
        "type": "array",
        "items": part,
        "minItems": 1,
        "maxItems": _max_images(runtime),
    }
    return form


def _max_images(runtime: Runtime) -> int:
    limit = runtime.config.limits.max_images
    return min(
        limit, max(model.max_input_images or limit for model in runtime.config.models.values())
    )


def image_schemas(runtime: Runtime) -> dict[str, Schema]:
    """Describes how JSON holds input pictures."""
    also = "its address, " if runtime.config.fetch.enabled else ""
    text = ref("PictureText")
    address = {"type": "object", "properties": {"url": text}, "required": ["url"]}
    return {
        "PictureText": {
            "type": "string",
            "format": "picture",
            "description": f"A PNG, JPEG or WebP picture: {also}base64, or a data URL with base64.",
        },
        "PictureObject": {
            "type": "object",
            "properties": {
                "b64_json": text,
                "url": text,
                "image_url": {"anyOf": [text, address | {"additionalProperties": True}]},
                **{name: {} for name in LABELS},
            },
            "anyOf": [{"required": [key]} for key in ("b64_json", "url", "image_url")],
        },
        "InputImages": {
            "description": "One input picture or a list of them; all places count together. "
            "Null and empty values mean no picture.",
            "anyOf": [ref("Pictures"), {"type": "null"}],
        },
        "Pictures": {
            "anyOf": [
                text,
                ref("PictureObject"),
                {
                    "type": "array",
                    "items": {"anyOf": [text, ref("PictureObject")]},
                    "minItems": 1,
                    "maxItems": _max_images(runtime),
                },
            ],
        },
    }


def ref(name: str) -> Schema:
    """Points to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def closed(*optional: str, **members: Schema) -> Schema:
    """Builds an object with exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


def count() -> Schema:
    """Describes a count."""
    return {"type": "integer", "minimum": 0}


def seconds() -> Schema:
    """Describes a time in seconds."""
    return {"type": "number", "minimum": 0}
