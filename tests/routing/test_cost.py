"""The cost of a request is known exactly before it runs."""

from __future__ import annotations

import pytest

from gateway.routing.cost import Cost, cost_of, image_tokens
from gateway.routing.request import ImageRequest, Size, Task
from tests.routing.builders import image


@pytest.mark.parametrize(
    ("task", "size", "tokens"),
    [
        (Task.T2I, Size(1024, 1024), 1281),
        (Task.T2I, Size(512, 512), 513),
        (Task.T2I, Size(1152, 768), 1112),
        (Task.T2I, Size(2048, 2048), 4353),
        (Task.I2I, Size(1024, 1024), 1025),
        (Task.I2I, Size(32, 32), 2),
    ],
)
def test_the_encoders_tokens_are_counted_exactly(task, size, tokens):
    """Text plans a small preview first, an edit does not; one end token each."""
    request = ImageRequest(task=task, prompt="p", num_inference_steps=2)
    assert Cost(tokens, size.width * size.height * 2) == cost_of(request, size)


def test_steps_that_nobody_chose_are_those_of_the_workers():
    """Without a number of steps the workers' default counts."""
    cost = cost_of(ImageRequest(task=Task.T2I, prompt="p"), Size(64, 64))
    assert 64 * 64 * 30 == cost.pixel_steps


@pytest.mark.parametrize(("size", "tokens"), [((32, 32), 1), ((33, 64), 4), ((1024, 768), 768)])
def test_an_input_picture_is_a_token_per_32_pixels_a_side(size, tokens):
    """An input picture's tokens follow from its size."""
    assert tokens == image_tokens(image(*size))
