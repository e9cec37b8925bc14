"""The encoder's view of one request: token ids, grids and pixels, laid out by the processor."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workers.engine import PictureRequest
from workers.errors import InvalidRequest
from workers.rows import Row, Sampling

MARKUP = re.compile(r"<[^<>\s]{1,40}>|\[\w{1,40}\]")


@dataclass(frozen=True, slots=True)
class Layout:
    """Ids (length,), grids (images, 3) as sources then targets, and the sources' pixels if any."""

    input_ids: Tensor
    grids: Tensor
    pixel_values: Tensor | None

    @property
    def source_count(self) -> int:
        """Source grids come first; without sources the grids are the target and its preview."""
        return 0 if self.pixel_values is None else len(self.grids) - 1

    @property
    def target(self) -> tuple[int, int]:
        """Rows and columns of the target in tokens of 32 pixels."""
        height, width = self.grids[self.source_count, 1:].tolist()
        return int(height), int(width)

    @property
    def offset(self) -> int:
        """New tokens before the target's: those of the preview."""
        return int(self.grids[self.source_count + 1 :].prod(-1).sum())

    @property
    def max_new_tokens(self) -> int:
        """All target grids and an end token."""
        return int(self.grids[self.source_count :].prod(-1).sum()) + 1

    def row(self, input_ids: Tensor, seed: int, sampling: Sampling) -> Row:
        """The decoder's row; `input_ids` has the sources' codes in place of placeholders."""
        return Row(input_ids.tolist(), self.grids.tolist(), self.max_new_tokens, seed, sampling)


def lay_out(processor: Any, request: PictureRequest, context_length: int) -> Layout:
    """Lays out one request; raises InvalidRequest if it is longer than the model's context."""
    images = [{"type": "image", "image": source} for source in request.sources]
    text = {"type": "text", "text": plain_text(processor.tokenizer, request.prompt)}
    # Nested: with a flat conversation the processor loses the source grids.
    inputs = processor.apply_chat_template(
        [[{"role": "user", "content": [*images, text]}]],
        tokenize=True,
        target_h=request.height,
        target_w=request.width,
        return_dict=True,
        return_tensors="pt",
    )
    pixels = inputs["pixel_values"] if request.sources else None
    layout = Layout(inputs["input_ids"][0], inputs["image_grid_thw"], pixels)
    if len(layout.input_ids) + layout.max_new_tokens > context_length:
        raise InvalidRequest("The prompt is too long for the model.", param="prompt")
    return layout


def plain_text(tokenizer: Any, prompt: str) -> str:
    """The prompt with the model's control tokens broken up, so that it cannot forge a layout."""
    control = {str(token) for token in tokenizer.added_tokens_decoder.values()}

    def broken(match: re.Match[str]) -> str:
        text = match[0]
        return f"{text[0]} {text[1:]}" if text in control else text

    return MARKUP.sub(broken, prompt)


def upsample(codes: Tensor, height: int, width: int) -> Tensor:
    """Codes (height*width,) at 32 pixels to (4*height*width,) at 16, each repeated 2x2."""
    grid = codes.reshape(height, width)
    return grid.repeat_interleave(2, 0).repeat_interleave(2, 1).reshape(-1)


def source_codes(model: Any, layout: Layout) -> Tensor:
    """Codebook ids of the sources, flat, from the vision tower and the quantiser."""
    grids = layout.grids[: layout.source_count].to(model.device)
    assert layout.pixel_values is not None
    features = model.get_image_features(layout.pixel_values.to(model.device), grids).pooler_output
    if features[0].dim() == 3:  # transformers from 5.18: a list of (channels, height, width)
        codes: Tensor = model.get_image_tokens(features)
    else:
        codes = model.get_image_tokens(torch.cat(list(features)), grids)
    return codes.cpu()
