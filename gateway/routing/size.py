"""Decides the size of a result: from what was asked, the model's limits, and the input picture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.errors import InvalidRequest
from gateway.routing.request import InputImage, Size

if TYPE_CHECKING:
    from gateway.config import ModelConfig

MIN_SIDE: Final = 8
MAX_ASPECT: Final = 4
_SIZE: Final = re.compile(r"\s*([0-9]{1,6})\s*[xX]\s*([0-9]{1,6})\s*", re.ASCII)


def asked_size(size: str | None, width: int | None, height: int | None) -> Size | None:
    """Returns the size that the caller named, None for `auto` or none named.

    Raises InvalidRequest for a size that is no `WxH`, half a size, or two that differ.
    """
    pair = None
    if (width is None) != (height is None):
        raise _invalid("'width' and 'height' go together; send both or 'size'", "size")
    if width is not None and height is not None:
        pair = Size(width, height)
    if size is None or size.strip().lower() == "auto":
        return pair
    match = _SIZE.fullmatch(size)
    if match is None:
        raise _invalid("'size' has to be 'auto' or WIDTHxHEIGHT in pixels, as 1024x1024", "size")
    named = Size(int(match[1]), int(match[2]))
    if pair is not None and pair != named:
        raise _invalid("'size' contradicts 'width' and 'height'; send one of them", "size")
    return named


def result_size(asked: Size | None, images: tuple[InputImage, ...], model: ModelConfig) -> Size:
    """Returns the exact size of the result in pixels.

    Without a size, a text-to-image request takes the model's default, and an edit the first
    picture's own size, rounded to the step and scaled into the model's limits.
    """
    if asked is None:
        return _size_of(images[0], model) if images else _default(model)
    for side in (asked.width, asked.height):
        if not MIN_SIDE <= side <= model.max_side:
            raise _invalid(
                f"each side has to be from {MIN_SIDE} to {model.max_side} pixels", "size"
            )
    if max(asked.width, asked.height) > MAX_ASPECT * min(asked.width, asked.height):
        raise _invalid(f"one side may be at most {MAX_ASPECT} times the other", "size")
    if model.size_policy == "refuse" and (asked.width % model.step or asked.height % model.step):
        raise _invalid(f"each side has to be a multiple of {model.step} pixels", "size")
    return asked


def painted_size(size: Size, model: ModelConfig) -> Size:
    """Returns the size that the worker is asked for: every side rounded up to the step."""
    step = model.step
    return Size(-(-size.width // step) * step, -(-size.height // step) * step)


def _default(model: ModelConfig) -> Size:
    width, height = model.default_size.split("x")
    return Size(int(width), int(height))


def _size_of(image: InputImage, model: ModelConfig) -> Size:
    scale = min(1.0, model.max_side / max(image.width, image.height))
    step = model.step

    def side(pixels: int, other: int) -> int:
        # Rounding must not make a picture flatter than any that could be asked for.
        least = -(-other * scale // (MAX_ASPECT * step)) * step
        return int(max(step, least, round(pixels * scale / step) * step))

    return Size(side(image.width, image.height), side(image.height, image.width))


def _invalid(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, code="invalid_size", param=param)
