"""The size of a result: asked for, by default, or like the input picture."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import ModelConfig
from gateway.errors import InvalidRequest
from gateway.routing.request import Size
from gateway.routing.size import asked_size, painted_size, result_size
from tests.routing.builders import image

MODEL = ModelConfig()
REFUSING = ModelConfig(size_policy="refuse")


def fault(function, *arguments):
    """Returns (status, code, field) of a refused size."""
    with pytest.raises(InvalidRequest) as caught:
        function(*arguments)
    return caught.value.status, caught.value.code, caught.value.param


INVALID = (400, "invalid_size", "size")


@pytest.mark.parametrize(
    ("size", "width", "height", "expected"),
    [
        (None, None, None, None),
        ("auto", None, None, None),
        (" AUTO ", None, None, None),
        ("1024x1536", None, None, Size(1024, 1536)),
        ("1024X1024", None, None, Size(1024, 1024)),
        (" 1024 x 1024 ", None, None, Size(1024, 1024)),
        (None, 640, 480, Size(640, 480)),
        ("640x480", 640, 480, Size(640, 480)),
        ("auto", 640, 480, Size(640, 480)),
        ("0512x0512", None, None, Size(512, 512)),
    ],
)
def test_a_size_is_read_in_every_usual_spelling(size, width, height, expected):
    """A size is `WxH` with blanks and X allowed, `auto`, or width and height together (B23)."""
    assert expected == asked_size(size, width, height)


@pytest.mark.parametrize(
    "size",
    [
        "1024*1024",
        "1024",
        "-1x5",
        "1e3x1e3",
        "½",
        "1024x",
        "x",
        "1024×1024",
        "٥x٥",
        "1x1x1",
        "9" * 9,
    ],
)
def test_a_size_that_cannot_be_read_is_refused(size):
    """What is no size is refused, never turned into a default (B23)."""
    assert INVALID == fault(asked_size, size, None, None)


@pytest.mark.parametrize(
    ("size", "width", "height"),
    [(None, 512, None), (None, None, 512), ("512x512", 512, None), ("512x512", 512, 640)],
)
def test_half_a_size_and_a_contradiction_are_refused(size, width, height):
    """Width without height, and two sizes that differ, are refused (B24)."""
    assert INVALID == fault(asked_size, size, width, height)


@pytest.mark.parametrize(
    "text", ["500x500", "1280x720", "1000x999", "1024x1536", "8x8", "2048x512"]
)
def test_a_size_off_the_step_is_kept_exactly(text):
    """Under the policy `crop` the result has exactly the size that was asked for (B22)."""
    asked = asked_size(text, None, None)
    assert asked == result_size(asked, (), MODEL)


@pytest.mark.parametrize("text", ["500x500", "1280x720", "1000x999"])
def test_a_size_off_the_step_may_be_refused(text):
    """Under the policy `refuse` a size off the step is a 400 that names the step (B22)."""
    asked = asked_size(text, None, None)
    assert INVALID == fault(result_size, asked, (), REFUSING)
    with pytest.raises(InvalidRequest, match="multiple of 32"):
        result_size(asked, (), REFUSING)


def test_a_size_on_the_step_always_works():
    """A size on the step is served under either policy (B22)."""
    assert Size(1024, 1536) == result_size(Size(1024, 1536), (), REFUSING)


@pytest.mark.parametrize(
    ("asked", "painted"),
    [
        (Size(500, 500), Size(512, 512)),
        (Size(1280, 720), Size(1280, 736)),
        (Size(1000, 999), Size(1024, 1024)),
        (Size(1024, 1536), Size(1024, 1536)),
        (Size(8, 32), Size(32, 32)),
        (Size(33, 1), Size(64, 32)),
    ],
)
def test_the_worker_paints_the_next_step_up(asked, painted):
    """Each side is rounded up to the step, so that a cut leaves what was asked for (B22)."""
    assert painted == painted_size(asked, MODEL)


@pytest.mark.parametrize(
    "asked",
    [
        Size(100000, 10000),
        Size(8192, 8192),
        Size(2049, 2048),
        Size(0, 512),
        Size(7, 8),
        Size(512, 7),
        Size(2048, 511),
        Size(32, 136),
    ],
)
def test_a_size_that_would_harm_a_worker_is_refused(asked):
    """A size beyond the model's limits never reaches a worker (B24)."""
    assert INVALID == fault(result_size, asked, (), MODEL)


def test_text_to_image_without_a_size_takes_the_default():
    """A T2I request that names no size gets the model's own (B23)."""
    model = ModelConfig(default_size="768x512")
    assert Size(768, 512) == result_size(None, (), model)


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        ((640, 960), Size(640, 960)),
        ((1003, 761), Size(992, 768)),
        ((4096, 2048), Size(2048, 1024)),
        ((8, 8), Size(32, 32)),
        ((32, 8), Size(32, 32)),
        ((8192, 2048), Size(2048, 512)),
    ],
)
def test_an_edit_without_a_size_is_like_its_first_picture(picture, expected):
    """An I2I result keeps the first picture's shape, on the step and in the limits (B22, B23)."""
    assert expected == result_size(None, (image(*picture), image(64, 64)), MODEL)


SIDES = st.integers(8, 8192)


@settings(deadline=None)
@given(SIDES, SIDES, st.sampled_from([1, 8, 16, 32, 64]), st.integers(1, 64))
def test_a_size_like_the_picture_is_always_paintable(width, height, step, steps):
    """Whatever the picture, its result is on the step and within the largest side."""
    largest = max(64, step * steps) // step * step
    model = ModelConfig(step=step, max_side=largest, default_size="64x64")
    size = result_size(None, (image(width, height),), model)
    assert size == painted_size(size, model)
    if max(width, height) <= 4 * min(width, height):
        assert max(size.width, size.height) <= 4 * min(size.width, size.height)
    assert step <= min(size.width, size.height) <= max(size.width, size.height) <= model.max_side


@settings(deadline=None)
@given(st.integers(1, 2048), st.integers(1, 2048), st.integers(1, 128))
def test_the_painted_size_is_the_smallest_that_covers(width, height, step):
    """The painted size covers the asked one by less than a step on each side."""
    model = ModelConfig(step=step, max_side=128 * step, default_size="64x64")
    painted = painted_size(Size(width, height), model)
    for side, asked in ((painted.width, width), (painted.height, height)):
        assert 0 == side % step
        assert 0 <= side - asked < step


def test_a_size_reads_as_it_is_sent():
    """A size is written as `WxH`."""
    assert "1024x768" == str(Size(1024, 768))
