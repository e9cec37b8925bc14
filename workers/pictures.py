"""Bytes to pictures and back, and the sizes they may have. Knows no HTTP."""

import io
import struct
import warnings
import zlib

from PIL import Image

from workers.engine import ImageLimits
from workers.errors import InvalidRequest

MIN_SOURCE_SIDE = 8
MAX_SOURCE_SIDE = 16384
MAX_SOURCE_PIXELS = 64 * 1024 * 1024
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
ORIENTATION_TAG = 0x0112
TURNS = (
    (2, Image.Transpose.FLIP_LEFT_RIGHT),
    (3, Image.Transpose.ROTATE_180),
    (4, Image.Transpose.FLIP_TOP_BOTTOM),
    (5, Image.Transpose.TRANSPOSE),
    (6, Image.Transpose.ROTATE_270),
    (7, Image.Transpose.TRANSVERSE),
    (8, Image.Transpose.ROTATE_90),
)
# What Pillow raises on hostile or broken files.
PILLOW_FAULTS = (
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
    Image.DecompressionBombError,
)
DEFAULT_QUALITY = 75  # SGLang's default for JPEG and WebP

Size = tuple[int, int]


def read_picture(data: bytes, max_aspect: float) -> Image.Image:
    """The picture upright, as RGB, with alpha laid over white; raises InvalidRequest."""
    try:
        with warnings.catch_warnings():
            # Pillow only warns about big headers; our own bound below refuses them.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        _check_header(*image.size)
        image.load()
        rgb = _rgb(_upright(image))
    except PILLOW_FAULTS as error:
        raise _refused("cannot be decoded") from error
    width, height = rgb.size
    if min(width, height) < MIN_SOURCE_SIDE:
        raise _refused(f"is {width}x{height}, below 8x8")
    if max(width, height) > max_aspect * min(width, height):
        raise _refused(f"is {width}x{height}, beyond {max_aspect:g}:1")
    return rgb


def _upright(image: Image.Image) -> Image.Image:
    """Turns by the EXIF orientation alone; the rest of a broken EXIF block is not looked at."""
    try:
        orientation = image.getexif().get(ORIENTATION_TAG)
    except PILLOW_FAULTS:  # a block that cannot be read tells nothing
        return image
    turn = next((method for number, method in TURNS if number == orientation), None)
    return image if turn is None else image.transpose(turn)


def _check_header(width: int, height: int) -> None:
    if max(width, height) > MAX_SOURCE_SIDE or width * height > MAX_SOURCE_PIXELS:
        raise _refused(f"is too large: {width}x{height}")


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"A source image {why}.", "invalid_image", "image")


def _rgb(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    if image.mode in ("I;16", "I;16B", "I;16L", "I"):  # convert() clips 16-bit greys to white
        return image.convert("I").point(lambda value: value / 256).convert("L").convert("RGB")
    return image.convert("RGB")


def rounded_up(side: int, step: int) -> int:
    """The next multiple of the step."""
    return -(-side // step) * step


def source_size(size: Size, limits: ImageLimits) -> Size:
    """The size at which the model sees a source: multiples of the step within the limits."""
    scale = max(1.0, limits.min_side / min(size))
    scale = min(scale, limits.max_side / max(size))
    width, height = (max(limits.min_side, round(side * scale)) for side in size)
    return (
        min(limits.max_side, rounded_up(width, limits.step)),
        min(limits.max_side, rounded_up(height, limits.step)),
    )


def fit_source(image: Image.Image, limits: ImageLimits) -> Image.Image:
    """The picture at its source size; both halves of the model must see this same picture."""
    size = source_size(image.size, limits)
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def size_like(size: Size, limits: ImageLimits) -> Size:
    """The target size for an edit without one: the source's own, scaled down if too large."""
    scale = min(1.0, limits.max_side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def write_picture(image: Image.Image, output_format: str, quality: int | None) -> bytes:
    """The picture as png, jpeg or webp; `quality` is 0 to 100 and means nothing for png."""
    out = io.BytesIO()
    if output_format == "png":
        image.save(out, "PNG", compress_level=4)
    else:
        image.save(
            out, output_format.upper(), quality=DEFAULT_QUALITY if quality is None else quality
        )
    return out.getvalue()
