"""How scalar fields are read from JSON and from forms, and which are refused by name."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest
from gateway.routing.fields import ACCEPTED, REFUSED, shown
from gateway.routing.request import Upload
from tests.routing.builders import read, read_form

PROMPT = ("prompt", "p")


def refusal(reading, *entries, **limits):
    """Returns (code, field) of a refused request."""
    with pytest.raises(InvalidRequest) as caught:
        reading(*entries, **limits)
    return caught.value.code, caught.value.param


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", 10),
        ("seed", 0),
        ("seed", 2**32 - 1),
        ("num_inference_steps", 200),
        ("guidance_scale", 1.5),
        ("guidance_scale", 0),
        ("guidance_scale", 20),
        ("output_compression", 100),
        ("output_format", "webp"),
        ("negative_prompt", "blurred"),
        ("model", "glm-image"),
        ("seed", None),
    ],
)
def test_a_value_in_its_range_is_kept(name, value):
    """A scalar inside its range reaches the request as it was sent."""
    assert value == getattr(read(PROMPT, (name, value)), name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", "2", 2),
        ("seed", " 7 ", 7),
        ("seed", "4294967295", 4294967295),
        ("guidance_scale", "1.5", 1.5),
        ("guidance_scale", "2e0", 2.0),
        ("num_inference_steps", "30", 30),
        ("output_format", "PNG", "png"),
        ("output_format", " jpeg", "jpeg"),
        ("seed", "", None),
        ("seed", "  ", None),
    ],
)
def test_a_form_text_becomes_the_value_it_stands_for(name, text, value):
    """Numbers in a form are numbers behind the inspector, blanks are not given (B25)."""
    read_value = getattr(read_form(PROMPT, (name, text)), name)
    assert (value, type(value)) == (read_value, type(read_value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 0),
        ("n", 11),
        ("n", 1.5),
        ("n", True),
        ("n", "2"),
        ("n", [2]),
        ("seed", -1),
        ("seed", 2**32),
        ("seed", 1.5),
        ("num_inference_steps", 0),
        ("num_inference_steps", 201),
        ("guidance_scale", -0.1),
        ("guidance_scale", 20.1),
        ("guidance_scale", "1.5"),
        ("guidance_scale", {"a": 1}),
        ("output_compression", 101),
        ("output_format", "gif"),
        ("output_format", 3),
        ("negative_prompt", 3),
        ("model", ["glm-image"]),
        ("response_format", "png"),
        ("quality", "best"),
        ("background", "pink"),
    ],
)
def test_a_value_outside_its_range_is_refused(name, value):
    """A scalar of the wrong kind or outside its range is a 400 that names the field (R5)."""
    assert ("invalid_value", name) == refusal(read, PROMPT, (name, value))


@pytest.mark.parametrize("name", ["seed", "guidance_scale", "n", "output_compression"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_too_large_for_arithmetic_is_refused(name, sign):
    """A number of hundreds of digits is the caller's mistake, not an error of ours (R5)."""
    assert ("invalid_value", name) == refusal(read, PROMPT, (name, sign * 10**400))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n", "two"),
        ("n", "1_0"),
        ("n", "2.0"),
        ("n", "٢"),
        ("n", "0x2"),
        ("seed", "9" * 33),
        ("guidance_scale", "nan"),
        ("guidance_scale", "inf"),
        ("guidance_scale", "1,5"),
        ("guidance_scale", "1e999"),
        ("seed", Upload(b"7", "seed.txt")),
    ],
)
def test_a_form_text_that_is_no_number_is_refused(name, text):
    """A form's text that does not stand for a usable number is a 400 (B25)."""
    assert ("invalid_value", name) == refusal(read_form, PROMPT, (name, text))


@pytest.mark.parametrize("prompt", [7, ["p"], Upload(b"p", "p.txt")])
def test_a_prompt_is_a_text(prompt):
    """A prompt that is no text is a 400."""
    assert ("invalid_value", "prompt") == refusal(read, ("prompt", prompt))


@pytest.mark.parametrize(("length", "is_read"), [(31_999, True), (32_000, True), (32_001, False)])
def test_a_prompt_has_a_limit(length, is_read):
    """A prompt is read up to its limit in characters, and refused beyond it."""
    prompt = ("prompt", "é" * length)
    if is_read:
        assert length == len(read(prompt).prompt)
    else:
        assert ("invalid_value", "prompt") == refusal(read, prompt)


@pytest.mark.parametrize("name", ["response_format", "quality", "background"])
def test_a_field_with_one_meaning_is_checked_and_dropped(name):
    """A field whose only meaning is built in may be sent with that meaning."""
    value = {"response_format": "b64_json", "quality": "auto", "background": "opaque"}[name]
    assert read(PROMPT) == read(PROMPT, (name, value))


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_a_field_that_changes_nothing_is_accepted(name):
    """Fields of the OpenAI API that change nothing here are no mistake."""
    assert read(PROMPT) == read(PROMPT, (name, "whatever"))
    assert () == read(PROMPT, (name, "whatever")).ignored


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("value", ["data:image/png;base64,AAAA", True, Upload(b"x", "m.png"), 1])
@pytest.mark.parametrize("policy", ["refuse", "ignore"])
def test_a_field_that_is_wrong_to_ignore_is_refused(name, value, policy):
    """A mask, an overlay or a stream is refused by name, whatever the policy (B10)."""
    refused = refusal(read_form, PROMPT, ("image", "x"), (name, value), unknown_fields=policy)
    assert ("unsupported_parameter", name) == refused


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("value", [None, "", False, "false", "False", [], Upload(b"", "")])
def test_an_unsupported_field_that_asks_for_nothing_is_harmless(name, value):
    """A mask that is empty, and a stream that is off, change nothing (B10)."""
    assert read(PROMPT) == read(PROMPT, (name, value))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_unsupported_field_is_refused_however_deep_its_value(name):
    """A value nested deeper than we can call is refused, not an error of ours (R5, B10)."""
    value = [1]
    for _ in range(2000):
        value = [value]
    assert ("unsupported_parameter", name) == refusal(read, PROMPT, (name, value))


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_a_file_is_never_accepted_and_dropped(name):
    """A file part under a name that changes nothing might be the picture, so it is refused (R2)."""
    code, param = refusal(read_form, PROMPT, (name, Upload(b"x", "a.png")))
    assert (True, name) == (code in ("invalid_value", "unsupported_parameter"), param)


@pytest.mark.parametrize("name", ["prompts", "", "input", "steps", "image_strength"])
@pytest.mark.parametrize("reading", [read, read_form])
def test_an_unknown_field_is_refused_by_default(name, reading):
    """A field that nobody knows is a 400 that names it."""
    assert ("unsupported_parameter", name) == refusal(reading, PROMPT, (name, "x"))


def test_an_unknown_field_may_be_ignored_and_is_named():
    """Under the policy `ignore` an unknown field is listed, in order, and changes nothing."""
    request = read(("b", 1), PROMPT, ("a", {}), unknown_fields="ignore")
    assert (("b", "a"), "p") == (request.ignored, request.prompt)


def test_an_unknown_file_is_never_ignored():
    """A file part under an unknown name might be the picture, so it is refused (R2)."""
    entries = (PROMPT, ("photo", Upload(b"x", "a.png")))
    expected = ("unsupported_parameter", "photo")
    assert expected == refusal(read_form, *entries, unknown_fields="ignore")


@pytest.mark.parametrize(
    ("name", "seen"),
    [("size", "size"), ("x\r\nEvil: 1", "x??Evil: 1"), ("天", "?"), ("a" * 100, "a" * 64)],
)
def test_a_name_made_up_by_the_caller_is_safe_to_show(name, seen):
    """A foreign field name is cut and cleaned before it reaches a message or a header."""
    assert seen == shown(name)


def test_a_field_given_twice_has_to_agree():
    """A scalar that a form repeats with another value is a 400."""
    assert ("invalid_value", "seed") == refusal(read_form, PROMPT, ("seed", "1"), ("seed", "2"))


def test_a_field_given_twice_with_one_value_is_read_once():
    """A scalar that a form repeats unchanged is no contradiction."""
    assert 1 == read_form(PROMPT, ("seed", "1"), ("seed", "1")).seed
