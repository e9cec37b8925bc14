"""Finds out what a request asks for: its task, its input images, its parameters.

The first rules of the house stand here.
1. An empty image value means no image.
2. An image that is present but unusable is an error, never a text-to-image request.
3. All places are joined, in order of appearance, and counted together.

Knows nothing about sockets, and does not look inside a picture.
"""

from __future__ import annotations

import difflib
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from gateway.errors import InvalidRequest, UnusableImage
from gateway.routing.fields import ACCEPTED, CHECKED_ONLY, PARSERS, REFUSED, shown
from gateway.routing.request import ImageRequest, ImageSource, Payload, Task, Upload
from gateway.routing.size import asked_size

if TYPE_CHECKING:
    from collections.abc import Mapping

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

LABELS: Final = ("type", "detail", "mime_type")
"""Keys that describe an image beside it, and are none themselves."""

MAX_NESTING: Final = 8
"""Lists and objects around one image; real clients need three."""

MAX_ITEMS: Final = 1000
"""Parts of one value that are looked at."""

_BRACKETS: Final = re.compile(r"\[\d*\]$")
_URL: Final = re.compile(r"https?:", re.IGNORECASE)


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
            _collect(bare, value, sources, limits)
        elif name in REFUSED:
            _refuse(name, value, REFUSED[name])
        elif name in PARSERS or (name in ACCEPTED and not isinstance(value, Upload)):
            if name in values and values[name] != value:
                raise InvalidRequest(f"'{name}' is given twice; send it once", param=name)
            values[name] = value
        elif limits.unknown_fields == "refuse" or isinstance(value, Upload):
            raise _unknown(shown(name))
        else:
            ignored.append(shown(name))
    if face is Face.EDITS and not sources:
        raise UnusableImage(
            "an edit needs an input image: send it as the file part 'image' or, in JSON, as base64",
            code="missing_image",
            param="image",
        )
    parsed = {
        name: PARSERS[name](name, value, payload.is_form)
        for name, value in values.items()
        if name in PARSERS and not (value is None or (isinstance(value, str) and _is_blank(value)))
    }
    _check_texts(parsed, limits)
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


def _collect(
    field: str, value: object, found: list[ImageSource], limits: LimitsConfig, depth: int = 0
) -> None:
    """Adds the images that a value holds to those found; an empty value holds none."""
    if isinstance(value, str) and value.strip():
        found.append(ImageSource(field, _checked_text(field, value)))
    elif isinstance(value, Upload) and not value.is_blank:
        found.append(ImageSource(field, value.data))
    elif isinstance(value, list) and depth < MAX_NESTING:
        if len(value) > MAX_ITEMS:
            raise _too_many(field, len(value), limits)
        for item in value:
            _collect(field, item, found, limits, depth + 1)
    elif isinstance(value, dict) and depth < MAX_NESTING:
        before = len(found)
        for key in NESTED_KEYS:
            if key in value:
                _collect(field, value[key], found, limits, depth + 1)
        rest = [item for key, item in value.items() if key not in (*NESTED_KEYS, *LABELS)]
        if len(found) == before and not _is_blank(rest):
            raise _no_image(field)
    elif not _is_blank(value):
        raise _no_image(field)
    if len(found) > limits.max_images:
        raise _too_many(field, len(found), limits)


def _checked_text(field: str, text: str) -> str:
    if _URL.match(text.strip()):
        raise UnusableImage(
            "image URLs are not fetched here; send the picture itself, as base64, as a data "
            "URL or as a file part",
            code="image_url_forbidden",
            param=field,
        )
    return text


def _no_image(field: str) -> UnusableImage:
    return UnusableImage(
        "an input image is a base64 text, a data URL, a file part, or an object with "
        "'b64_json' or 'url'",
        param=field,
    )


def _too_many(field: str, count: int, limits: LimitsConfig) -> UnusableImage:
    return UnusableImage(
        f"{count} input images are too many; the limit is {limits.max_images}",
        code="too_many_images",
        param=field,
    )


def _is_blank(value: object) -> bool:
    """Tells whether a value holds nothing; one with very many parts is taken to hold something."""
    left, looked = [value], 0
    while left:  # a loop, because a caller may nest deeper than we can call
        item = left.pop()
        looked += 1
        if looked > MAX_ITEMS:
            return False
        if isinstance(item, list | dict):
            left.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, str):
            if item.strip():
                return False
        elif not (item is None or (isinstance(item, Upload) and item.is_blank)):
            return False
    return True


def _unknown(name: str) -> InvalidRequest:
    near = difflib.get_close_matches(name, (*PARSERS, *IMAGE_FIELDS), n=1)
    hint = f"did you mean '{near[0]}'?" if near else "remove it or correct its name"
    return InvalidRequest(
        f"'{name}' is not a known field; {hint}", code="unsupported_parameter", param=name
    )


def _refuse(name: str, value: object, reason: str) -> None:
    is_off = value is False or (isinstance(value, str) and value.lower() == "false")
    if not (is_off or _is_blank(value)):
        raise InvalidRequest(
            f"'{name}' is not supported: {reason}", code="unsupported_parameter", param=name
        )


def _check_texts(parsed: Mapping[str, Any], limits: LimitsConfig) -> None:
    if "prompt" not in parsed:
        raise InvalidRequest(
            "'prompt' is missing; say what to paint", code="missing_prompt", param="prompt"
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
