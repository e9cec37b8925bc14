"""Bytes to pictures and back."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tests.workers.support import pattern, png
from workers.engine import ImageLimits
from workers.errors import InvalidRequest
from workers.pictures import fit_source, read_picture, size_like, source_size, write_picture

LIMITS = ImageLimits(64, 512)


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def test_orientation_is_applied():
    """A picture that its EXIF turns by 90 degrees arrives upright."""
    exif = Image.Exif()
    exif[0x0112] = 6
    image = read_picture(encoded(pattern(60, 30), "PNG", exif=exif), 4.0)
    assert image.size == (30, 60)
    assert image.getpixel((29, 0)) == pattern(60, 30).getpixel((0, 0))


@pytest.mark.parametrize(("mode", "colour"), [("RGBA", (9, 9, 9, 0)), ("LA", (9, 0)), ("PA", None)])
def test_alpha_is_laid_over_white(mode, colour):
    """What is transparent becomes white."""
    image = Image.new("RGBA", (16, 16), (9, 9, 9, 0))
    image = image.quantize() if mode == "PA" else Image.new(mode, (16, 16), colour)
    assert read_picture(png(image), 4.0).getpixel((3, 3)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "I;16"])
def test_every_mode_becomes_rgb(mode):
    """The model sees RGB whatever was sent."""
    kind = "TIFF" if mode == "CMYK" else "PNG"
    assert read_picture(encoded(Image.new(mode, (16, 16)), kind), 4.0).mode == "RGB"


def test_16_bit_grey_keeps_its_tone():
    """A middle grey of 16 bits is a middle grey, not white."""
    image = Image.new("I;16", (16, 16), 128 * 256)
    assert read_picture(encoded(image, "PNG"), 4.0).getpixel((0, 0)) == (128, 128, 128)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no picture",
        encoded(pattern(64, 64), "PNG")[:200],
        encoded(Image.new("RGB", (7, 20)), "PNG"),
        encoded(Image.new("RGB", (100, 401)), "PNG"),
        encoded(Image.new("1", (16400, 16400)), "PNG"),
    ],
    ids=["empty", "text", "cut off", "7 wide", "beyond 4:1", "bomb"],
)
def test_bad_pictures_are_refused(data):
    """What cannot be decoded, is too small, too long or too large is the caller's error."""
    with pytest.raises(InvalidRequest):
        read_picture(data, 4.0)


@given(st.integers(8, 4000), st.integers(8, 4000))
def test_sources_fit_the_model(width, height):
    """Any accepted source gets sides in multiples of 32, within the limits and within 4:1."""
    if max(width, height) > 4 * min(width, height):
        return
    size = source_size((width, height), LIMITS)
    assert all(side % 32 == 0 and 64 <= side <= 512 for side in size)
    assert max(size) <= 4 * min(size)


def test_a_fitting_source_is_not_touched():
    """A source that fits already is used as it is."""
    image = pattern(96, 64)
    assert fit_source(image, LIMITS) is image


@pytest.mark.parametrize(
    ("source", "target"), [((100, 75), (100, 75)), ((40, 30), (40, 30)), ((2000, 1000), (512, 256))]
)
def test_target_like_the_source(source, target):
    """An edit without a size has its source's size, or that scaled down to the limit."""
    assert size_like(source, LIMITS) == target


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
def test_written_kinds(kind):
    """A picture is written in the kind asked for, at its exact size; PNG keeps every pixel."""
    written = write_picture(pattern(50, 33), kind, None)
    image = Image.open(io.BytesIO(written))
    assert (image.format, image.size) == (kind.upper(), (50, 33))
    if kind == "png":
        assert image.tobytes() == pattern(50, 33).tobytes()


def test_quality_changes_the_bytes():
    """A lower quality makes a smaller JPEG."""
    image = pattern(64, 64)
    assert len(write_picture(image, "jpeg", 5)) < len(write_picture(image, "jpeg", 95))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_undone(orientation):
    """Whatever the EXIF orientation, the picture is as a viewer shows it (B31)."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(pattern(60, 30), "PNG", exif=exif)
    with Image.open(io.BytesIO(data)) as opened:
        expected = ImageOps.exif_transpose(opened).convert("RGB")
    assert expected.tobytes() == read_picture(data, 4.0).tobytes()


@pytest.mark.parametrize(
    ("kind", "count", "value"),
    [
        (2, 4, b"six\0"),
        (3, 1, b"\xe7\3\0\0"),
        (5, 1, b"\xff" * 4),
        (99, 9, b""),
    ],
)
def test_a_broken_orientation_is_none(kind, count, value):
    """An EXIF block with nonsense in it is no reason to fail."""
    entry = struct.pack("<HHI4s", 0x0112, kind, count, value)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4)
    assert (60, 30) == read_picture(encoded(pattern(60, 30), "JPEG", exif=exif), 4.0).size
