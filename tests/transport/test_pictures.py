"""What stands for an input picture becomes checked bytes, or a 400 that says what is wrong."""

from __future__ import annotations

import asyncio
import base64
import io
import resource
import struct
import threading
import time
import zlib

import pytest
from PIL import Image

from gateway.config import LimitsConfig
from gateway.errors import UnusableImage
from gateway.routing.request import ImageSource, InputImage
from gateway.transport.pictures import PictureLoader, load_image, load_images

LIMITS = LimitsConfig()
ORIENTATION = 0x0112


def picture(kind="PNG", size=(24, 16), mode="RGB", **options):
    """Draws a small picture whose pixels differ."""
    drawn = Image.linear_gradient("L").resize(size).convert(mode)
    out = io.BytesIO()
    drawn.save(out, kind, **options)
    return out.getvalue()


def turned(orientation, kind="JPEG", size=(60, 40)):
    """Draws a picture with an EXIF orientation."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return picture(kind, size, exif=exif)


def load(value, **limits):
    """Loads one source."""
    return load_image(ImageSource("image", value), LimitsConfig(**limits))


def refusal(value, **limits):
    """Returns the code of a picture that is refused, its field checked."""
    with pytest.raises(UnusableImage) as caught:
        load(value, **limits)
    assert (400, "image") == (caught.value.status, caught.value.param)
    return caught.value.code


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_passed_on_byte_for_byte(kind):
    """PNG, JPEG and WebP keep their bytes, and the type is what the bytes say (B11, B30)."""
    data = picture(kind)
    assert InputImage(data, kind.lower(), 24, 16) == load(data)


@pytest.mark.parametrize(
    ("orientation", "upright"),
    [(1, (60, 40)), (2, (60, 40)), (3, (60, 40)), (6, (40, 60)), (8, (40, 60)), (9, (60, 40))],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_sideways_photo_has_its_upright_size(kind, orientation, upright):
    """The size of a picture is the one that a viewer shows (B31)."""
    loaded = load(turned(orientation, kind))
    assert upright == (loaded.width, loaded.height)


def test_a_photo_with_a_second_frame_is_a_jpeg():
    """A phone's photo with a second picture behind the first is sent on as JPEG (B11)."""
    second = Image.new("RGB", (24, 16))
    data = picture("MPO", save_all=True, append_images=[second])
    loaded = load(data)
    assert ("jpeg", 24, 16) == (loaded.format, loaded.width, loaded.height)
    assert data.index(b"\xff\xd9") > len(loaded.data) - 100
    assert loaded == load(loaded.data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, I am a text",
        b"\x89PNG",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF\0\0\0\0WEBP",
        b"\xff\xd8\xff",
    ],
)
def test_bytes_that_are_no_picture_are_refused(data):
    """Text bytes and bare signatures are a 400, whatever they are labelled (B11, R2)."""
    assert "invalid_image" == refusal(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
def test_a_picture_that_was_cut_off_is_refused(kind, kept):
    """A picture whose end is missing is a 400, not half an edit (R2)."""
    data = picture(kind, (200, 200))
    assert "invalid_image" == refusal(data[: int(len(data) * kept)])


def test_a_picture_with_a_broken_body_is_refused():
    """A picture whose pixels cannot be decoded is a 400 (R2)."""
    data = bytearray(picture("PNG", (200, 200)))
    data[len(data) // 2] ^= 0xFF
    assert "invalid_image" == refusal(bytes(data))


HEIC = b"\0\0\0\x18ftyp" + b"%s" + b"\0\0\0\0mif1heic"


@pytest.mark.parametrize(
    "data",
    [
        picture("GIF", mode="L"),
        picture("BMP"),
        picture("TIFF"),
        b"MM\0*\0\0\0\x08",
        HEIC % b"heic",
        HEIC % b"mif1",
        HEIC % b"avif",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<?xml version='1.0'?><svg/>",
        b"  <!DOCTYPE svg><svg/>",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_a_picture_of_another_format_is_told_which_are_taken(data):
    """GIF, BMP, TIFF, HEIC, AVIF and SVG are a 400 that lists what is allowed (B30)."""
    assert "unsupported_image_format" == refusal(data)
    with pytest.raises(UnusableImage, match="PNG, JPEG or WebP"):
        load(data)


@pytest.mark.parametrize(
    ("size", "code"),
    [
        ((8, 8), None),
        ((7, 8), "invalid_image"),
        ((8, 7), "invalid_image"),
        ((8, 32), None),
        ((32, 8), None),
        ((8, 33), "invalid_image"),
        ((33, 8), "invalid_image"),
        ((128, 128), None),
        ((129, 128), "image_too_large"),
        ((256, 64), None),
        ((257, 63), "image_too_large"),
    ],
)
def test_a_picture_has_limits(size, code):
    """Pixels, longest side, shortest side and shape of an input picture are limited (B24)."""
    data = picture(size=size)
    limits = {"max_image_pixels": 128 * 128, "max_image_side": 256}
    if code is None:
        assert size == (load(data, **limits).width, load(data, **limits).height)
    else:
        assert code == refusal(data, **limits)


def chunk(kind, data):
    """Writes one chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(side, body=b"\0" * 2_000_000):
    """Writes a small PNG that announces a huge picture and begins to unfold it."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(body)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize("side", [8193, 50_000])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_bomb_is_refused_from_its_header(side, as_text):
    """A picture too large is refused from its header, at once and without its memory (B33)."""
    data = bomb(side)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    value = "data:image/png;base64," + base64.b64encode(data).decode() if as_text else data
    assert "image_too_large" == refusal(value)
    assert 1 > time.process_time() - began
    assert 200_000 > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def test_nothing_of_a_large_picture_is_decoded():
    """A picture too large is refused for its size, even where its body is broken (B33)."""
    assert "image_too_large" == refusal(bomb(50_000, body=b""))


def test_pictures_are_loaded_in_order():
    """All input pictures are loaded in order, and the first bad one is named by its field."""
    sources = (ImageSource("image", picture()), ImageSource("url", picture("WEBP")))
    loaded, warnings = asyncio.run(load_images(sources, LIMITS))
    assert (["png", "webp"], ()) == ([each.format for each in loaded], warnings)
    with pytest.raises(UnusableImage) as caught:
        asyncio.run(load_images((*sources, ImageSource("ref_images", b"x")), LIMITS))
    assert "ref_images" == caught.value.param


def test_few_pictures_are_decoded_at_once_and_a_bomb_waits_for_none_of_them():
    """Ten callers share two decoders; a header is judged without waiting for them (B33)."""
    large = ImageSource("image", picture("PNG", (2000, 2000), "RGBA"))

    async def run():
        loader = PictureLoader(LIMITS)
        many = [asyncio.create_task(loader.load((large,))) for _ in range(10)]
        await asyncio.sleep(0.05)
        with pytest.raises(UnusableImage):
            await loader.load((ImageSource("image", bomb(50_000)),))
        undone = sum(not task.done() for task in many)
        names = [each.name for each in threading.enumerate() if each.name.startswith("pictures")]
        await asyncio.gather(*many)
        loader.close()
        return undone, len(names)

    undone, decoders = asyncio.run(run())
    assert undone > 0
    assert 2 == decoders
