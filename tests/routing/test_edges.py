"""What is left of the request's rules: flags, words that we know, limits of what is looked at."""

from __future__ import annotations

import pytest

from gateway.config import ModelConfig
from gateway.errors import InvalidRequest, UnusableImage
from gateway.routing.inspection import Face
from gateway.routing.places import MAX_ITEMS, fitting, looks_like_picture
from tests.routing.builders import read, read_form
from tests.support.pictures import B64


@pytest.mark.parametrize(("text", "flag"), [("true", True), ("1", True), ("false", False)])
def test_forms_write_flags_as_words(text, flag):
    """A flag of a form is a word, and only chat may stream."""
    request = read_form(("prompt", "p"), ("stream", text), face=Face.CHAT)
    assert flag is request.stream


@pytest.mark.parametrize("value", ["maybe", 1, "true"])
def test_a_flag_is_true_or_false(value):
    """Anything else than true or false is refused by name (R5)."""
    with pytest.raises(InvalidRequest) as caught:
        read(("prompt", "p"), ("stream", value))
    assert ("invalid_value", "stream") == (caught.value.code, caught.value.param)


def test_a_stream_is_refused_where_answers_come_whole():
    """Only chat streams; elsewhere it is a 400 that names the field (B29)."""
    with pytest.raises(InvalidRequest) as caught:
        read(("prompt", "p"), ("stream", True))
    assert ("unsupported_parameter", "stream") == (caught.value.code, caught.value.param)


def test_a_word_that_is_known_and_not_supported():
    """A transparent background is not supported, and is told so."""
    with pytest.raises(InvalidRequest) as caught:
        read(("prompt", "p"), ("background", "transparent"))
    assert ("unsupported_parameter", "background") == (caught.value.code, caught.value.param)


def test_a_field_that_is_null_is_not_given():
    """Null stands for a field left out, also for one that nobody knows."""
    request = read(("prompt", "p"), ("seed", None), ("whatever", None))
    assert (None, ()) == (request.seed, request.ignored)


def test_a_prompt_that_holds_a_picture_is_refused():
    """A picture among the words would be painted as words (R2)."""
    with pytest.raises(UnusableImage) as caught:
        read(("prompt", f"![](data:image/png;base64,{B64})"))
    assert ("invalid_image", "prompt") == (caught.value.code, caught.value.param)


def test_a_very_long_list_is_not_walked():
    """A list beyond any limit is refused by its length."""
    with pytest.raises(UnusableImage, match=str(MAX_ITEMS + 1)) as caught:
        read(("prompt", "p"), ("images", [None] * (MAX_ITEMS + 1)))
    assert "too_many_images" == caught.value.code


def test_what_is_too_large_to_look_through_may_hold_a_picture():
    """A value with more parts than are looked at is taken to hold a picture (R2)."""
    assert looks_like_picture([1] * (MAX_ITEMS + 1))
    assert not looks_like_picture([1] * 10)


@pytest.mark.parametrize(("limit", "fits"), [(None, True), (2, True), (1, False)])
def test_a_model_takes_so_many_pictures(limit, fits):
    """A model's own limit counts beside the configuration's (B13)."""
    request = read(("prompt", "p"), ("image", B64), ("images", [B64]))
    model = model_of(limit)
    if fits:
        assert request.sources == fitting(request, model)
    else:
        with pytest.raises(UnusableImage) as caught:
            fitting(request, model)
        assert ("too_many_images", "images") == (caught.value.code, caught.value.param)


def model_of(limit):
    """Makes a model that takes so many input pictures."""
    return ModelConfig(max_input_images=limit)


@pytest.mark.parametrize(
    ("entries", "steps"),
    [
        ([("quality", "high")], 50),
        ([("quality", "auto")], None),
        ([("quality", "high"), ("num_inference_steps", 7)], 7),
    ],
)
def test_quality_is_a_number_of_steps(entries, steps):
    """OpenAI's words for quality are denoising steps; a number of steps counts before them."""
    assert steps == read(("prompt", "p"), *entries).num_inference_steps
