"""Finds out what a request asks for: its task, its input images, its parameters.

The first rules of the house stand here.
1. An empty image value means no image.
2. An image that is present but unusable is an error, never a text-to-image request.
3. All places are joined, in order of appearance, and counted together.

Knows nothing about sockets, and does not look inside a picture.
"""

from __future__ import annotations

import difflib
from enum import Enum
from typing import TYPE_CHECKING, Any

from gateway.errors import InvalidRequest, UnusableImage
from gateway.routing.fields import (
    ACCEPTED,
    CHECKED_ONLY,
    PARSERS,
    QUALITY_STEPS,
    REFUSED,
    shown,
)
from gateway.routing.places import (
    IMAGE_FIELDS,
    UNFOLDED_FIELDS,
    collect,
    image_field,
    is_blank,
    looks_like_picture,
)
from gateway.routing.request import ImageRequest, ImageSource, Payload, Task
from gateway.routing.shapes import unfold
from gateway.routing.size import asked_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.config import LimitsConfig


class Face(Enum):
    """Names the route that a request came by."""

    GENERATE = "/generate"
    GENERATIONS = "/v1/images/generations"
    EDITS = "/v1/images/edits"
    CHAT = "/v1/chat/completions"
    HUGGING_FACE = "/hf/{model}"


def inspect(
    payload: Payload, face: Face, limits: LimitsConfig, *, allow_urls: bool = False
) -> ImageRequest:
    """Returns the request in canonical form, its task decided by its input images.

    `allow_urls` lets images stand by their address. Raises InvalidRequest or UnusableImage with
    the field named.
    """
    sources: list[ImageSource] = []
    values: dict[str, Any] = {}
    ignored: list[str] = []
    for name, value in unfold(payload).entries:
        place = image_field(name)
        if place is not None and not (payload.is_form and place in UNFOLDED_FIELDS):
            collect(place, value, sources, limits, allow_urls=allow_urls)
        elif name in REFUSED:
            _refuse(name, value, REFUSED[name])
        elif value is None:
            continue
        elif name in PARSERS or (name in ACCEPTED and not looks_like_picture(value)):
            if name in values and values[name] != value:
                raise InvalidRequest(f"'{name}' is given twice; send it once", param=name)
            values[name] = value
        elif limits.unknown_fields == "refuse" or looks_like_picture(value, name):
            raise _unknown(shown(name))
        else:
            ignored.append(shown(name))
    if face is Face.EDITS and not sources:
        raise UnusableImage(
            "an edit needs an input image: send it as the file part 'image' or, in JSON, as base64",
            code="missing_image",
            param="image",
        )
    parsed: dict[str, Any] = {
        name: PARSERS[name].read(name, value, is_form=payload.is_form)
        for name, value in values.items()
        if name in PARSERS and not (isinstance(value, str) and is_blank(value))
    }
    _check_texts(parsed, limits)
    size = asked_size(
        parsed.pop("size", None), parsed.pop("width", None), parsed.pop("height", None)
    )
    if parsed.get("stream") and face is not Face.CHAT:
        raise InvalidRequest(
            "'stream' is not supported here: answers come whole; leave it out",
            code="unsupported_parameter",
            param="stream",
        )
    steps = QUALITY_STEPS.get(parsed.pop("quality", ""))
    if steps is not None:
        parsed.setdefault("num_inference_steps", steps)
    for name in CHECKED_ONLY:
        parsed.pop(name, None)
    return ImageRequest(
        task=Task.I2I if sources else Task.T2I,
        size=size,
        sources=tuple(sources),
        evidence=_evidence(sources),
        ignored=tuple(ignored),
        **parsed,
    )


def _unknown(name: str) -> InvalidRequest:
    near = difflib.get_close_matches(name, (*PARSERS, *IMAGE_FIELDS), n=1)
    hint = f"did you mean '{near[0]}'?" if near else "remove it or correct its name"
    return InvalidRequest(
        f"'{name}' is not a known field; {hint}", code="unsupported_parameter", param=name
    )


def _refuse(name: str, value: object, reason: str) -> None:
    is_off = value is False or (isinstance(value, str) and value.lower() == "false")
    if not (is_off or is_blank(value)):
        raise InvalidRequest(
            f"'{name}' is not supported: {reason}", code="unsupported_parameter", param=name
        )


def _check_texts(parsed: Mapping[str, Any], limits: LimitsConfig) -> None:
    if "prompt" not in parsed:
        raise InvalidRequest(
            "'prompt' is missing; say what to paint", code="missing_prompt", param="prompt"
        )
    if "data:image/" in parsed["prompt"]:
        raise UnusableImage(
            "the prompt holds a picture; send it as an image of its own, as in 'image'",
            param="prompt",
        )
    for name in ("prompt", "negative_prompt"):
        length = len(parsed.get(name, ""))
        if length > limits.max_prompt_chars:
            raise InvalidRequest(
                f"'{name}' has {length} characters; the limit is {limits.max_prompt_chars}",
                param=name,
            )


def _evidence(sources: list[ImageSource]) -> str:
    if not sources:
        return "no input image"
    fields = ", ".join(dict.fromkeys(source.field for source in sources))
    return f"{len(sources)} input image{'s' if len(sources) > 1 else ''} in {fields}"
