"""Turns what stands for a picture into checked bytes, and fits a worker's picture to the answer.

The header is read first and judged before anything is decoded; decoding runs in threads.
A picture that needs no change keeps its bytes. Only PNG, JPEG and WebP are opened at all.
"""

from __future__ import annotations

import asyncio
import io
import re
import struct
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pybase64
from PIL import Image

from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource, InputImage, Size
from gateway.routing.size import MAX_ASPECT, MIN_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.config import LimitsConfig

Image.MAX_IMAGE_PIXELS = None  # sizes are judged here, from the header, by our own limits

FORMATS: Final = ("PNG", "JPEG", "WEBP")
_DATA_URL: Final = re.compile(r"data:[^,]{0,200}?;base64,", re.IGNORECASE)
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_PILLOW_FAULTS: Final = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)
"""What Pillow raises on hostile or broken files of the formats above."""


class BadPicture(Exception):
    """Says in what way bytes are not the picture they should be."""


async def load_images(
    sources: tuple[ImageSource, ...], limits: LimitsConfig
) -> tuple[InputImage, ...]:
    """Loads every input image, in order; raises UnusableImage with the field named."""
    return tuple([await asyncio.to_thread(load_image, source, limits) for source in sources])


def load_image(source: ImageSource, limits: LimitsConfig) -> InputImage:
    """Decodes and checks one input image."""
    data = source.value if isinstance(source.value, bytes) else _decode(source.field, source.value)

    def refuse(message: str, code: str = "invalid_image") -> UnusableImage:
        return UnusableImage(message, code=code, param=source.field)

    try:
        with _opened(data) as picture:
            width, height = picture.size  # as stored: looking for EXIF may decode a PNG
            if (
                width * height > limits.max_image_pixels
                or max(width, height) > limits.max_image_side
            ):
                raise refuse(
                    f"the input image has {width}x{height} pixels; the limit is "
                    f"{limits.max_image_pixels} pixels and {limits.max_image_side} on a side",
                    "image_too_large",
                )
            if min(width, height) < MIN_SIDE:
                raise refuse(f"the input image is smaller than {MIN_SIDE}x{MIN_SIDE} pixels")
            if max(width, height) > MAX_ASPECT * min(width, height):
                raise refuse(f"one side of the input image is over {MAX_ASPECT} times the other")
            picture.load()
            kind = "jpeg" if picture.format == "MPO" else str(picture.format).lower()
            return InputImage(data, kind, *upright_size(picture))
    except BadPicture as error:
        raise _unusable(data, source.field, str(error)) from error


def upright_size(picture: Image.Image) -> tuple[int, int]:
    """Returns width and height as a viewer shows them, the EXIF orientation applied."""
    try:
        orientation = picture.getexif().get(0x0112)
    except _PILLOW_FAULTS:  # a block that cannot be read tells nothing
        orientation = None
    width, height = picture.size
    return (height, width) if orientation in (5, 6, 7, 8) else (width, height)


def _decode(field: str, text: str) -> bytes:
    text = text.strip()
    match = _DATA_URL.match(text)
    payload = text[match.end() :] if match else text
    try:
        data = pybase64.b64decode(payload, validate=True)
    except ValueError:
        try:  # line breaks, URL-safe letters and missing padding are usual, and harmless
            plain = payload.encode("ascii").translate(_STANDARD, b" \t\r\n").rstrip(b"=")
            data = pybase64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
        except ValueError as error:
            raise UnusableImage(
                "the input image is neither a file part nor base64 nor a data URL with base64; "
                "curl sends a file with -F image=@picture.png",
                param=field,
            ) from error
    return data


@contextmanager
def _opened(data: bytes) -> Iterator[Image.Image]:
    """Opens a picture from its header; any fault in here or in the body is a BadPicture."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            yield picture
    except _PILLOW_FAULTS as error:
        raise BadPicture("the input image is broken or not a PNG, JPEG or WebP picture") from error


_OTHER_FORMATS: Final = (
    ("a GIF", re.compile(rb"GIF8")),
    ("a BMP", re.compile(rb"BM")),
    ("a TIFF", re.compile(rb"II\*\x00|MM\x00\*")),
    ("a HEIC", re.compile(rb".{4}ftyp(heic|heix|heim|heis|hevc|mif1|msf1)", re.DOTALL)),
    ("an AVIF", re.compile(rb".{4}ftyp(avif|avis)", re.DOTALL)),
    ("an SVG", re.compile(rb"\s*<(\?xml|svg|!DOCTYPE svg)", re.IGNORECASE)),
)


def _unusable(data: bytes, field: str, fault: str) -> UnusableImage:
    """Tells a picture of a format we do not take from something that is no usable picture."""
    for name, pattern in _OTHER_FORMATS:
        if pattern.match(data):
            return UnusableImage(
                f"the input image is {name}; convert it to PNG, JPEG or WebP",
                code="unsupported_image_format",
                param=field,
            )
    return UnusableImage(fault if data else "the input image is empty", param=field)


def fit(data: bytes, size: Size, painted: Size, output_format: str, quality: int | None) -> bytes:
    """Returns a worker's picture in the format and the exact size that the caller asked for.

    `painted` is the size that the worker was asked for. Raises BadPicture for bytes that are not
    a whole picture of that size. The bytes are kept where nothing has to change.
    """
    with _opened(data) as picture:
        if picture.size != (painted.width, painted.height):
            raise BadPicture(f"the picture has {picture.size} pixels, not {painted}")
        is_asked = size == painted and str(picture.format).lower() == output_format
        picture.load()
        if is_asked:
            return data
        left, top = (painted.width - size.width) // 2, (painted.height - size.height) // 2
        cut = picture.convert("RGB").crop((left, top, left + size.width, top + size.height))
        return encode(cut, output_format, quality)


def encode(picture: Image.Image, output_format: str, quality: int | None) -> bytes:
    """Encodes a picture as png, jpeg or webp; quality is 0 to 100, for the last two."""
    options = {} if output_format == "png" else {"quality": 95 if quality is None else quality}
    out = io.BytesIO()
    picture.save(out, format=output_format.upper(), **options)
    return out.getvalue()
