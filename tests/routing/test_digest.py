"""Requests with the same content are known by the same digest, whoever sends them and how."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.routing.request import ImageRequest, InputImage, Size, Task, digest_of

SEEN = ImageRequest(
    task=Task.I2I,
    prompt="a cat",
    model="glm-image",
    seed=1,
    size=Size(512, 512),
    images=(InputImage(b"1", "png", 8, 8, "one"), InputImage(b"2", "png", 8, 8, "two")),
)


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": "a dog"},
        {"negative_prompt": "dogs"},
        {"model": "other"},
        {"size": Size(512, 768)},
        {"seed": 2},
        {"seed": None},
        {"num_inference_steps": 7},
        {"guidance_scale": 2.0},
        {"images": SEEN.images[:1]},
        {"images": SEEN.images[::-1]},
    ],
)
def test_other_content_has_another_digest(changes):
    """Everything that a worker paints by counts, the pictures and their order included."""
    assert digest_of(SEEN) != digest_of(dataclasses.replace(SEEN, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"output_format": "webp"},
        {"n": 4},
        {"response_format": "url"},
        {"evidence": "field 'image'"},
        {"ignored": ("user",)},
    ],
)
def test_the_way_of_asking_does_not_count(changes):
    """What a worker does not paint by changes no digest."""
    assert digest_of(SEEN) == digest_of(dataclasses.replace(SEEN, **changes))


def test_any_text_has_a_digest():
    """A prompt that cannot be written as bytes has a digest too."""
    assert 64 == len(digest_of(ImageRequest(task=Task.T2I, prompt="\ud800 cat")))
