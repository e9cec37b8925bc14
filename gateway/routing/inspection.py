"""Finds out what a request asks for: its task, its input images, its parameters.

The first rules of the house stand here.
1. An empty image value means no image.
2. An image that is present but unusable is an error, never a text-to-image request.
3. All places are joined, in order of appearance, and counted together.

Knows nothing about sockets, and does not look inside a picture.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from gateway.errors import InvalidRequest, UnusableImage
from gateway.routing.fields import ACCEPTED, CHECKED_ONLY, PARSERS, REFUSED, shown
from gateway.routing.request import ImageRequest, ImageSource, Payload, Task, Upload
from gateway.routing.size import asked_size

if TYPE_CHECKING:
    from gateway.config import LimitsConfig

IMAGE_FIELDS: Final = (
    "image",
    "images",
    "image_url",
    "url",
    "init_image",
    "init_images",
    "ref_images",
    "reference_images",
    "input_reference",
    "input_references",
)
"""Top-level places of an input image; in forms also with brackets: `image[]`, `image[0]`."""

NESTED_KEYS: Final = ("image_url", "url", "b64_json")
"""Keys under which an object carries its image."""

MAX_NESTING: Final = 8
"""Lists and objects around one image; real clients need three."""

_BRACKETS: Final = re.compile(r"\[\d*\]$")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Face(Enum):
    """Names the route that a request came by."""

    GENERATE = "/generate"
    GENERATIONS = "/v1/images/generations"
    EDITS = "/v1/images/edits"


def inspect(payload: Payload, face: Face, limits: LimitsConfig) -> ImageRequest:
    """Returns the request in canonical form, its task decided by its input images.

    Raises InvalidRequest or UnusableImage with the field named.
    """
    sources: list[ImageSource] = []
    values: dict[str, Any] = {}
    ignored: list[str] = []
    for name, value in payload.entries:
        bare = _BRACKETS.sub("", name)
        if bare in IMAGE_FIELDS:
            sources.extend(_sources(bare, value))
        elif name in REFUSED:
            _refuse(name, value, REFUSED[name])
        elif name in PARSERS or (name in ACCEPTED and not isinstance(value, Upload)):
            if name in values and values[name] != value:
                raise InvalidRequest(f"'{name}' is given twice; send it once", param=name)
            values[name] = value
        elif limits.unknown_fields == "refuse" or isinstance(value, Upload):
            raise InvalidRequest(
                f"'{shown(name)}' is not a known field; remove it or correct its name",
                code="unsupported_parameter",
                param=shown(name),
            )
        else:
            ignored.append(shown(name))
    _check_count(sources, face, limits)
    parsed = {
        name: PARSERS[name](name, value, payload.is_form)
        for name, value in values.items()
        if name in PARSERS and not (value is None or (isinstance(value, str) and _is_blank(value)))
    }
    _check_prompt(parsed.get("prompt"), limits)
    size = asked_size(
        parsed.pop("size", None), parsed.pop("width", None), parsed.pop("height", None)
    )
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


def _sources(field: str, value: object, depth: int = 0) -> list[ImageSource]:
    """Lists the images that a value holds; an empty value holds none."""
    if _is_blank(value):
        return []
    if isinstance(value, Upload):
        return [ImageSource(field, value.data)]
    if isinstance(value, str):
        if _URL.match(value.strip()) and value.strip()[:5].lower() in ("http:", "https"):
            raise UnusableImage(
                "image URLs are not fetched here; send the picture itself, as base64, as a data "
                "URL or as a file part",
                code="image_url_forbidden",
                param=field,
            )
        return [ImageSource(field, value)]
    if isinstance(value, list) and depth < MAX_NESTING:
        return [source for item in value for source in _sources(field, item, depth + 1)]
    if isinstance(value, dict) and depth < MAX_NESTING:
        held = [value[key] for key in NESTED_KEYS if key in value]
        if held:
            return [source for item in held for source in _sources(field, item, depth + 1)]
    raise UnusableImage(
        "an input image is a base64 text, a data URL, a file part, or an object with "
        "'b64_json' or 'url'",
        param=field,
    )


def _is_blank(value: object) -> bool:
    left = [value]
    while left:  # a loop, because a caller may nest deeper than we can call
        item = left.pop()
        if isinstance(item, list | dict):
            left.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, str):
            if item.strip():
                return False
        elif not (item is None or (isinstance(item, Upload) and item.is_blank)):
            return False
    return True


def _refuse(name: str, value: object, reason: str) -> None:
    is_off = value is False or (isinstance(value, str) and value.lower() == "false")
    if not (is_off or _is_blank(value)):
        raise InvalidRequest(
            f"'{name}' is not supported: {reason}", code="unsupported_parameter", param=name
        )


def _check_count(sources: list[ImageSource], face: Face, limits: LimitsConfig) -> None:
    if face is Face.EDITS and not sources:
        raise UnusableImage(
            "an edit needs an input image: send it as the file part 'image' or, in JSON, as base64",
            code="missing_image",
            param="image",
        )
    if len(sources) > limits.max_images:
        raise UnusableImage(
            f"{len(sources)} input images are too many; the limit is {limits.max_images}",
            code="too_many_images",
            param=sources[limits.max_images].field,
        )


def _check_prompt(prompt: str | None, limits: LimitsConfig) -> None:
    if prompt is None:
        raise InvalidRequest(
            "'prompt' is missing; say what to paint", code="missing_prompt", param="prompt"
        )
    if len(prompt) > limits.max_prompt_chars:
        raise InvalidRequest(
            f"'prompt' has {len(prompt)} characters; the limit is {limits.max_prompt_chars}",
            param="prompt",
        )


def _evidence(sources: list[ImageSource]) -> str:
    if not sources:
        return "no input image"
    fields = ", ".join(dict.fromkeys(source.field for source in sources))
    return f"{len(sources)} input image{'s' if len(sources) > 1 else ''} in {fields}"
