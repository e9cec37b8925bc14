"""Knows what a request costs before it runs: tokens to plan, and pixels to paint, times steps.

The encoder's count is exact: one token per 32 pixels a side, a small preview for text alone
(about 256 tokens at any size), and one end token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from gateway.routing.request import ImageRequest, InputImage, Size, Task

TOKEN_PIXELS: Final = 32
PREVIEW_SIDE: Final = 16
DEFAULT_STEPS: Final = 30
"""Denoising steps of a worker that is asked for no number, as SGLang and ours have it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Is the work of one picture: tokens decoded one by one, and pixels painted in all steps."""

    ar_tokens: int
    pixel_steps: int


def image_tokens(image: InputImage) -> int:
    """Returns how many tokens an input picture is to the encoder."""
    return -(-image.width // TOKEN_PIXELS) * -(-image.height // TOKEN_PIXELS)


def cost_of(request: ImageRequest, painted: Size) -> Cost:
    """Returns the cost of one picture of a request, painted at a size on the step."""
    rows, columns = -(-painted.height // TOKEN_PIXELS), -(-painted.width // TOKEN_PIXELS)
    tokens = rows * columns + 1
    if request.task is Task.T2I:
        ratio = math.sqrt(rows / columns)
        tokens += int(ratio * PREVIEW_SIDE) * int(PREVIEW_SIDE / ratio)
    steps = request.num_inference_steps or DEFAULT_STEPS
    return Cost(tokens, painted.width * painted.height * steps)
