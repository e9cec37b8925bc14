"""Where an input image may hide in a request, and what counts as none: the table, and its use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource, Upload

if TYPE_CHECKING:
    from gateway.config import LimitsConfig, ModelConfig
    from gateway.routing.request import ImageRequest

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
"""Top-level places of an input image, with brackets too: `image[]`, `image[0]`."""

UNFOLDED_FIELDS: Final = ("messages", "inputs")
"""Places that `shapes` takes apart first: the content parts of messages, Hugging Face's inputs."""

NESTED_KEYS: Final = ("image_url", "url", "b64_json")
"""Keys under which an object carries its image."""

LABELS: Final = ("type", "detail", "mime_type")
"""Keys that describe an image beside it, and are none themselves."""

EMPTY_VALUES: Final = (
    "null",
    '""',
    '"   "',
    "[]",
    "[null]",
    "{}",
    '{"url": ""}',
    "an empty file part without a name",
)
"""What means no image, wherever it stands."""

MAX_NESTING: Final = 8
"""Lists and objects around one image; real clients need three."""

MAX_ITEMS: Final = 1000
"""Parts of one value that are looked at."""

_BRACKETS: Final = re.compile(r"\[\d*\]$")
_URL: Final = re.compile(r"https?:", re.IGNORECASE)
_SIGNATURES: Final = (
    "data:image/",
    "iVBORw0KGgo",
    "/9j/",
    "UklGR",
    "R0lGOD",
    "AAAAHGZ0eX",
    "AAAAIGZ0eX",
)
"""How the text of a picture begins: a data URL, or base64 of PNG, JPEG, WebP, GIF, HEIC, AVIF."""
_PICTURE_NAME: Final = re.compile(r"image|img|picture|photo|url|ref", re.IGNORECASE)
_HEAD_LETTERS: Final = 256


def image_field(name: str) -> str | None:
    """Returns the place that a field's name means, None for a field that holds no image."""
    bare = _BRACKETS.sub("", name)
    return bare if bare in (*IMAGE_FIELDS, *UNFOLDED_FIELDS) else None


def is_url(text: str) -> bool:
    """Tells whether a text stands for an image by its address."""
    return _URL.match(text.strip()) is not None


def collect(
    field: str,
    value: object,
    found: list[ImageSource],
    limits: LimitsConfig,
    *,
    allow_urls: bool = False,
    depth: int = 0,
) -> None:
    """Adds the images that a value holds to those found; an empty value holds none.

    Raises UnusableImage for one that is there and cannot be one, and for too many.
    """

    def inner(item: object) -> None:
        collect(field, item, found, limits, allow_urls=allow_urls, depth=depth + 1)

    if isinstance(value, str) and value.strip():
        if is_url(value) and not allow_urls:
            raise UnusableImage(
                "image URLs are not fetched here; send the picture itself, as base64, as a data "
                "URL or as a file part",
                code="image_url_forbidden",
                param=field,
            )
        found.append(ImageSource(field, value))
    elif isinstance(value, Upload) and not value.is_blank:
        found.append(ImageSource(field, value.data))
    elif isinstance(value, list) and depth < MAX_NESTING:
        if len(value) > MAX_ITEMS:
            raise too_many(field, len(value), limits.max_images)
        for item in value:
            inner(item)
    elif isinstance(value, dict) and depth < MAX_NESTING:
        before = len(found)
        for key in NESTED_KEYS:
            if key in value:
                inner(value[key])
        rest = {k: item for k, item in value.items() if k not in (*NESTED_KEYS, *LABELS)}
        if looks_like_picture(rest) or (len(found) == before and not is_blank(rest)):
            raise _no_image(field)
    elif not is_blank(value):
        raise _no_image(field)
    if len(found) > limits.max_images:
        raise too_many(field, len(found), limits.max_images)


def fitting(request: ImageRequest, model: ModelConfig) -> tuple[ImageSource, ...]:
    """Returns the input images if the model takes so many. Raises UnusableImage."""
    count, limit = len(request.sources), model.max_input_images
    if limit is not None and count > limit:
        raise too_many(request.sources[limit].field, count, limit)
    return request.sources


def too_many(field: str, count: int, limit: int) -> UnusableImage:
    """Builds the error for more input images than are allowed."""
    return UnusableImage(
        f"{count} input images are too many; the limit is {limit}",
        code="too_many_images",
        param=field,
    )


def _no_image(field: str) -> UnusableImage:
    return UnusableImage(
        "an input image is a base64 text, a data URL, a file part, or an object with "
        "'b64_json' or 'url'",
        param=field,
    )


def is_blank(value: object) -> bool:
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


def looks_like_picture(value: object, name: str = "") -> bool:
    """Tells whether a value that nobody reads as an image may be one, and must not be dropped.

    A URL counts where the field's name speaks of pictures.
    """
    left, looked = [(name, value)], 0
    while left:
        name, item = left.pop()
        looked += 1
        if looked > MAX_ITEMS or isinstance(item, Upload):
            return True
        if isinstance(item, list):
            left.extend((name, inner) for inner in item)
        elif isinstance(item, dict):
            left.extend((str(key), inner) for key, inner in item.items())
        elif isinstance(item, str):
            head = "".join(item[:_HEAD_LETTERS].split())
            if head.startswith(_SIGNATURES) or (is_url(head) and _PICTURE_NAME.search(name)):
                return True
    return False
