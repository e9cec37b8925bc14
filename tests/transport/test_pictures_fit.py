"""A worker's picture is checked and fitted to the answer."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gateway.routing.request import Size
from gateway.transport.pictures import BadPicture, encode, fit

PAINTED = Size(64, 32)


def painted(kind="PNG", size=(64, 32), mode="RGB", **options):
    """Makes a worker's picture: each pixel tells its own place."""
    drawn = Image.new("RGB", size)
    drawn.putdata([(x, y, 0) for y in range(size[1]) for x in range(size[0])])
    out = io.BytesIO()
    drawn.convert(mode).save(out, kind, **options)
    return out.getvalue()


def opened(data):
    """Opens and decodes an answer's picture."""
    with Image.open(io.BytesIO(data)) as shown:
        shown.load()
        return shown.copy(), shown.format


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_that_fits_keeps_its_bytes(kind):
    """A picture in the asked format and size is handed on byte for byte."""
    data = painted(kind)
    assert data is fit(data, PAINTED, PAINTED, kind.lower(), None)


@pytest.mark.parametrize(
    ("size", "first"), [(Size(64, 30), (0, 1)), (Size(60, 32), (2, 0)), (Size(61, 29), (1, 1))]
)
def test_a_picture_painted_larger_is_cut_from_its_middle(size, first):
    """A picture painted on the step is cut back to exactly the asked size (B22)."""
    shown, kind = opened(fit(painted(), size, PAINTED, "png", None))
    assert ("PNG", (size.width, size.height)) == (kind, shown.size)
    assert (*first, 0) == shown.getpixel((0, 0))
    assert (first[0] + size.width - 1, first[1] + size.height - 1, 0) == shown.getpixel(
        (size.width - 1, size.height - 1)
    )


@pytest.mark.parametrize("sent", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("asked", ["png", "jpeg", "webp"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_picture_in_another_format_is_converted(sent, asked, mode):
    """The answer has the asked format, whatever the worker sent."""
    shown, kind = opened(fit(painted(sent, mode=mode), PAINTED, PAINTED, asked, None))
    assert (asked.upper(), (64, 32)) == (kind, shown.size)


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_a_transparent_picture_becomes_a_jpeg(mode):
    """A picture in a mode that JPEG does not know is converted, not failed (B32)."""
    shown, kind = opened(fit(painted(mode=mode), PAINTED, PAINTED, "jpeg", None))
    assert ("JPEG", "RGB") == (kind, shown.mode)


@pytest.mark.parametrize("size", [(32, 64), (63, 32), (64, 33), (128, 64)])
def test_a_picture_of_another_size_is_no_answer(size):
    """A picture that has not the painted size is refused, never scaled (R8)."""
    with pytest.raises(BadPicture):
        fit(painted(size=size), PAINTED, PAINTED, "png", None)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("asked", ["png", "jpeg"])
@pytest.mark.parametrize("size", [PAINTED, Size(60, 30)])
def test_a_picture_that_was_cut_off_is_no_answer(kind, asked, size):
    """Half a picture is refused even where its bytes would be handed on (R8)."""
    data = painted(kind)
    with pytest.raises(BadPicture):
        fit(data[: len(data) // 2], size, PAINTED, asked, None)


@pytest.mark.parametrize("data", [b"", b"<html>busy</html>", b"\x89PNG\r\n\x1a\n"])
def test_other_bytes_are_no_answer(data):
    """What is no picture is refused (R8)."""
    with pytest.raises(BadPicture):
        fit(data, PAINTED, PAINTED, "png", None)


def test_a_format_that_is_not_ours_is_no_answer():
    """A picture in a format that we do not send is refused (R8)."""
    with pytest.raises(BadPicture):
        fit(painted("BMP"), PAINTED, PAINTED, "png", None)


@pytest.mark.parametrize("output_format", ["jpeg", "webp"])
def test_quality_sets_the_weight_of_a_picture(output_format):
    """A lower quality makes a lighter picture; without one it is high."""
    noise = Image.effect_noise((64, 64), 90).convert("RGB")
    weights = [len(encode(noise, output_format, quality)) for quality in (0, 50, 95)]
    assert sorted(weights) == weights
    assert weights[-1] == len(encode(noise, output_format, None))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 64), st.integers(1, 32), st.sampled_from(["png", "jpeg", "webp"]))
def test_the_answer_has_exactly_the_asked_size(width, height, output_format):
    """Whatever was asked for within the painted size, the answer has exactly that (B22)."""
    data = fit(painted(), Size(width, height), PAINTED, output_format, 50)
    assert (width, height) == opened(data)[0].size
