"""Turns what stands for a picture into checked bytes, and fits a worker's picture to the answer.

The header is read first and judged before anything is decoded; decoding runs in threads.
A picture that needs no change keeps its bytes. Only PNG, JPEG and WebP are opened at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pybase64
from PIL import Image

from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource, InputImage, Size
from gateway.routing.size import MAX_ASPECT, MIN_SIDE
from gateway.transport.picture_colours import upright_rgb
from gateway.transport.picture_facts import BadPicture as BadPicture
from gateway.transport.picture_headers import other_format, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.config import LimitsConfig
    from gateway.transport.picture_facts import Header

Image.MAX_IMAGE_PIXELS = None  # sizes are judged here, from the header, by our own limits

FORMATS: Final = ("PNG", "JPEG", "WEBP")
DECODERS: Final = 2
"""Pictures of one process that are decoded at the same time."""
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


@dataclass(frozen=True, slots=True)
class _Judged:
    """Is an input image whose header is within the limits, before it is decoded."""

    field: str
    data: bytes
    header: Header

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lists what the caller should know, in ASCII."""
        if self.header.frames == 1:
            return ()
        field = self.field.encode("ascii", "replace").decode()
        return (f"{field}: the first of {self.header.frames} frames is used",)


class PictureLoader:
    """Loads input images; however many callers there are, few pictures are decoded at once.

    It has threads of its own: one that is at work when its caller leaves still counts.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = limits
        self._threads = ThreadPoolExecutor(DECODERS, thread_name_prefix="pictures")

    async def load(
        self, sources: tuple[ImageSource, ...]
    ) -> tuple[tuple[InputImage, ...], tuple[str, ...]]:
        """Loads every input image, in order, and warnings; raises UnusableImage."""
        # All headers come first, past the line for the decoders: a bomb is refused at once.
        judged = [await asyncio.to_thread(_judge, source, self.limits) for source in sources]
        loop = asyncio.get_running_loop()
        images = [await loop.run_in_executor(self._threads, _decode, each) for each in judged]
        return tuple(images), tuple(text for each in judged for text in each.warnings)

    def close(self) -> None:
        """Lets the threads end; nothing can be loaded after this."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def load_images(
    sources: tuple[ImageSource, ...], limits: LimitsConfig
) -> tuple[tuple[InputImage, ...], tuple[str, ...]]:
    """Loads the input images of one caller, with a loader of their own."""
    loader = PictureLoader(limits)
    try:
        return await loader.load(sources)
    finally:
        loader.close()


def load_image(source: ImageSource, limits: LimitsConfig) -> InputImage:
    """Decodes and checks one input image."""
    return _decode(_judge(source, limits))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _judge(source: ImageSource, limits: LimitsConfig) -> _Judged:
    """Reads an input image's header and holds it against the limits; decodes nothing."""
    data = source.value if isinstance(source.value, bytes) else _unwrap(source.field, source.value)

    def refuse(message: str, code: str = "invalid_image") -> UnusableImage:
        return UnusableImage(message, code=code, param=source.field)

    try:
        header = read_header(data)
    except BadPicture as error:
        raise _unusable(data, source.field, str(error)) from error
    width, height = header.upright
    if width * height > limits.max_image_pixels or max(width, height) > limits.max_image_side:
        raise refuse(
            f"the input image has {width}x{height} pixels; the limit is "
            f"{limits.max_image_pixels} pixels and {limits.max_image_side} on a side",
            "image_too_large",
        )
    if min(width, height) < MIN_SIDE:
        raise refuse(f"the input image is smaller than {MIN_SIDE}x{MIN_SIDE} pixels")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise refuse(f"one side of the input image is over {MAX_ASPECT} times the other")
    if header.frames > 1 and limits.animated_images == "refuse":
        raise refuse(f"the input image has {header.frames} frames; send a still picture")
    return _Judged(source.field, data, header)


def _decode(judged: _Judged) -> InputImage:
    """Decodes a picture to its end, and returns it as a model takes it."""
    header = judged.header
    width, height = header.upright
    data = header.cleaned(judged.data)
    try:
        with _opened(data) as picture:
            if picture.size != (header.width, header.height):
                raise BadPicture("the picture has two sizes")
            picture.load()
            if header.is_plain_rgb and header.orientation == 1:
                return InputImage(data, header.format, width, height, _hash(data))
            out = io.BytesIO()
            # The way to the worker is short: fast packing is worth more than small files.
            upright_rgb(picture, header).save(out, "PNG", compress_level=1)
            return InputImage(out.getvalue(), "png", width, height, _hash(data))
    except BadPicture as error:
        raise UnusableImage(
            f"the input image cannot be used: {error}", param=judged.field
        ) from error


def _unwrap(field: str, text: str) -> bytes:
    """Reads base64, with or without a data URL around it."""
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
        raise BadPicture("the picture is broken") from error


def _unusable(data: bytes, field: str, fault: str) -> UnusableImage:
    """Tells a picture of a format we do not take from something that is no usable picture."""
    name = other_format(data)
    if name is not None:
        return UnusableImage(
            f"the input image is {name}; convert it to PNG, JPEG or WebP",
            code="unsupported_image_format",
            param=field,
        )
    text = f"the input image cannot be used: {fault}" if data else "the input image is empty"
    return UnusableImage(text, param=field)


def fit(data: bytes, size: Size, painted: Size, output_format: str, quality: int | None) -> bytes:
    """Returns a worker's picture in the format and the exact size that the caller asked for.

    `painted` is the size that the worker was asked for. Raises BadPicture for bytes that are not
    a whole picture of that size. The bytes are kept where nothing has to change.
    """
    header = read_header(data)
    if (header.width, header.height) != (painted.width, painted.height):
        raise BadPicture(f"the picture has {header.width}x{header.height} pixels, not {painted}")
    with _opened(header.cleaned(data)) as picture:
        picture.load()
        if size == painted and header.format == output_format:
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
