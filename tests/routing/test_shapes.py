"""Chat messages and Hugging Face's inputs become prompt, images and settings of ours."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest, UnusableImage
from gateway.routing.inspection import Face
from gateway.routing.request import ImageSource, Size, Task
from tests.routing.builders import read
from tests.support.pictures import B64, DATA8

TEXT = {"type": "text", "text": "make it blue"}
PICTURE = {"type": "image_url", "image_url": {"url": DATA8}}
SOURCE = ImageSource("messages", DATA8)


def user(*parts):
    """Writes a user message."""
    return {"role": "user", "content": list(parts)}


@pytest.mark.parametrize(
    ("messages", "prompt", "count"),
    [
        ([user(TEXT, PICTURE)], "make it blue", 1),
        ([user(PICTURE, TEXT)], "make it blue", 1),
        ([user(TEXT), user(PICTURE)], "make it blue", 1),
        ([user(PICTURE), user(TEXT)], "make it blue", 1),
        ([user(TEXT, {"type": "image_url", "image_url": DATA8})], "make it blue", 1),
        ([user(TEXT, {"type": "input_image", "image_url": DATA8})], "make it blue", 1),
        ([{"role": "user", "content": "a fox"}], "a fox", 0),
        ([user("a", "fox")], "a\nfox", 0),
        (
            [
                {"role": "system", "content": "you paint"},
                user({"type": "text", "text": "a fox"}),
                {"role": "assistant", "content": [PICTURE]},
                user(TEXT),
            ],
            "make it blue",
            1,
        ),
        ([user(TEXT, PICTURE, PICTURE), {"role": "user", "content": " "}], "make it blue", 2),
        ([user(TEXT, {"type": "image_url", "image_url": {"url": ""}})], "make it blue", 0),
        ([user(TEXT), {"role": "assistant", "content": None}], "make it blue", 0),
        ([{"role": "user", "content": "make it blue", "images": [DATA8]}], "make it blue", 1),
        (
            [{"role": "assistant", "content": "here", "images": [PICTURE]}, user(TEXT)],
            "make it blue",
            1,
        ),
        ([user(TEXT | {"image_url": {"url": DATA8}})], "make it blue", 1),
        ([user(TEXT) | {"name": "me", "images": []}], "make it blue", 0),
    ],
)
def test_the_last_words_and_every_image_count(messages, prompt, count):
    """The prompt is the last user message with words; images of all messages are joined (B01)."""
    request = read(("messages", messages), face=Face.CHAT)
    assert (prompt, (SOURCE,) * count) == (request.prompt, request.sources)
    assert (Task.I2I if count else Task.T2I) is request.task


def test_settings_stand_beside_the_messages_or_in_the_extra_body():
    """Size, seed and steps are read from both places; settings of text models mean nothing."""
    request = read(
        ("model", "m"),
        ("messages", [user(TEXT)]),
        ("temperature", 0.7),
        ("response_format", {"type": "text"}),
        ("max_tokens", 10),
        ("n", 2),
        ("extra_body", {"height": 64, "width": 96, "seed": 5, "num_inference_steps": 4}),
        face=Face.CHAT,
    )
    assert ("m", 2, Size(96, 64), 5, 4) == (
        request.model,
        request.n,
        request.size,
        request.seed,
        request.num_inference_steps,
    )


@pytest.mark.parametrize(
    ("entries", "error", "code", "param"),
    [
        ([("messages", "a fox")], InvalidRequest, "invalid_value", "messages"),
        ([("messages", ["a fox"])], InvalidRequest, "invalid_value", "messages"),
        ([("messages", [])], InvalidRequest, "missing_prompt", "prompt"),
        ([("messages", [user(PICTURE)])], InvalidRequest, "missing_prompt", "prompt"),
        (
            [("messages", [user(TEXT)]), ("extra_body", [])],
            InvalidRequest,
            "invalid_value",
            "extra_body",
        ),
        (
            [("messages", [user(TEXT)]), ("tools", [{}])],
            InvalidRequest,
            "unsupported_parameter",
            "tools",
        ),
        (
            [("messages", [user(TEXT, {"type": "input_audio", "input_audio": {"data": "x"}})])],
            UnusableImage,
            "invalid_image",
            "messages",
        ),
        (
            [("messages", [user(TEXT, {"type": "image_url", "image_url": "http://x.test/a"})])],
            UnusableImage,
            "image_url_forbidden",
            "messages",
        ),
        (
            [("messages", [user(TEXT) | {"attachment": {"data": B64}}])],
            UnusableImage,
            "invalid_image",
            "messages",
        ),
        (
            [("messages", [user({"type": "text", "text": f"![]({DATA8}) bluer"})])],
            UnusableImage,
            "invalid_image",
            "prompt",
        ),
        ([("messages", None)], InvalidRequest, "missing_prompt", "prompt"),
    ],
)
def test_messages_that_cannot_be_used_are_refused(entries, error, code, param):
    """What is no message, no image and no known setting is refused by name (R2)."""
    with pytest.raises(error) as caught:
        read(*entries, face=Face.CHAT)
    assert (code, param) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    ("entries", "prompt", "task", "size"),
    [
        ([("inputs", "a fox")], "a fox", Task.T2I, None),
        (
            [("inputs", "a fox"), ("parameters", {"height": 64, "width": 96, "scheduler": "x"})],
            "a fox",
            Task.T2I,
            Size(96, 64),
        ),
        ([("inputs", B64), ("parameters", {"prompt": "at night"})], "at night", Task.I2I, None),
        (
            [
                ("inputs", B64),
                ("parameters", {"prompt": "p", "target_size": {"width": 64, "height": 32}}),
                ("options", {"wait_for_model": True}),
            ],
            "p",
            Task.I2I,
            Size(64, 32),
        ),
        ([("inputs", "a fox"), ("parameters", None)], "a fox", Task.T2I, None),
    ],
)
def test_inputs_are_a_prompt_or_a_picture(entries, prompt, task, size):
    """Inputs are the prompt, unless the parameters have one: then they are the picture."""
    request = read(*entries, face=Face.HUGGING_FACE)
    assert (prompt, task, size) == (request.prompt, request.task, request.size)


@pytest.mark.parametrize("inputs", [B64, DATA8])
def test_a_picture_without_words_is_no_prompt(inputs):
    """Inputs that are a picture are never painted as words (R2)."""
    with pytest.raises(InvalidRequest) as caught:
        read(("inputs", inputs), ("parameters", {"guidance_scale": 2.0}))
    assert "missing_prompt" == caught.value.code


def test_a_model_named_twice_is_a_contradiction():
    """A body's model that differs from the path's is refused, and null is no name."""
    with pytest.raises(InvalidRequest, match="given twice"):
        read(("inputs", "a fox"), ("model", "b"), ("model", "a"))
    assert "a" == read(("prompt", "a fox"), ("model", None), ("model", "a")).model


@pytest.mark.parametrize("name", ["parameters", "target_size"])
def test_parameters_have_to_be_objects(name):
    """Parameters that are no object are refused by name."""
    value = "x" if name == "parameters" else {"target_size": 7}
    with pytest.raises(InvalidRequest) as caught:
        read(("inputs", "a fox"), ("parameters", value))
    assert name == caught.value.param
