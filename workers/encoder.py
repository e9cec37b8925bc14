"""The autoregressive half behind one protocol: in this process, or on encoder servers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from workers.checkpoint import Checkpoint
from workers.contract import check_row
from workers.decode import Decoder
from workers.engine import REFUSAL, PictureRequest
from workers.errors import EncoderFailed, InvalidRequest
from workers.layout import Layout, lay_out, source_codes, upsample
from workers.remote import EncoderPool
from workers.rows import Row
from workers.watch import Watch


@dataclass(frozen=True, slots=True)
class PriorTokens:
    """What the encoder hands to the diffusion half; names and shapes are diffusers'.

    `prior_token_ids` (1, tokens of 16 pixels). For edits, one item per row of the batch: the
    sources' ids (tokens,) one after another, and their grids (sources, 3), both at 16 pixels.
    """

    prior_token_ids: Tensor
    prior_token_image_ids: list[Tensor] | None = None
    source_image_grid_thw: list[Tensor] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Encoder(Protocol):
    """Turns prompt and sources into prior tokens."""

    def encode(self, requests: Sequence[PictureRequest], watch: Watch) -> list[PriorTokens]:
        """The prior tokens of each picture; the requests differ in their seeds only."""


class Scribe:
    """Writes requests as rows of ids; `vision` holds tower and quantiser, or is left out."""

    def __init__(self, processor: Any, checkpoint: Checkpoint, vision: Any | None) -> None:
        self._processor = processor
        self._checkpoint = checkpoint
        self._vision = vision

    @torch.inference_mode()
    def row(self, request: PictureRequest) -> tuple[Layout, Row, Tensor | None]:
        """The row to decode with its layout, and the sources' codes at 32 pixels."""
        if request.sources and self._vision is None:
            raise NotImplementedError(REFUSAL)
        layout = lay_out(self._processor, request, self._checkpoint.context_length)
        ids, codes = layout.input_ids, None
        if request.sources:
            codes = source_codes(self._vision, layout)
            ids = ids.masked_scatter(ids == self._checkpoint.image_token_id, codes)
        return layout, layout.row(ids, request.seed, self._checkpoint.sampling), codes

    def read(
        self, layout: Layout, row: Row, tokens: list[int], codes: Tensor | None
    ) -> PriorTokens:
        """The prior tokens in the row's new tokens; raises EncoderFailed."""
        return prior_tokens(layout, row, tokens, self._checkpoint, codes)


class InProcessEncoder:
    """Language model, vision tower and quantiser in this process."""

    def __init__(self, model: Any, processor: Any, checkpoint: Checkpoint) -> None:
        self._decoder = Decoder(model)
        self._scribe = Scribe(processor, checkpoint, model)

    def encode(self, requests: Sequence[PictureRequest], watch: Watch) -> list[PriorTokens]:
        """Decodes here, all rows as one batch."""
        watch.at("encoding", 0, 0)
        layout, row, codes = self._scribe.row(requests[0])
        rows = [replace(row, seed=request.seed) for request in requests]
        total = row.max_new_tokens
        outputs = self._decoder.decode(rows, lambda done, _: watch.at("encoding", done, total))
        watch.at("encoding", total, total)
        return [self._scribe.read(layout, row, tokens, codes) for tokens in outputs]


class RemoteEncoder:
    """Encoder servers with SGLang's `/generate`; sources are turned into ids here, or refused."""

    def __init__(
        self, pool: EncoderPool, processor: Any, checkpoint: Checkpoint, vision: Any | None = None
    ) -> None:
        self._pool = pool
        self._checkpoint = checkpoint
        self._scribe = Scribe(processor, checkpoint, vision)

    def encode(self, requests: Sequence[PictureRequest], watch: Watch) -> list[PriorTokens]:
        """Decodes there, all rows as one call, with the same sampling as in process.

        Raises EncoderUnreachable before any work, EncoderLost after, EncoderFailed for a bad
        answer.
        """
        watch.at("encoding", 0, 0)
        layout, row, codes = self._scribe.row(requests[0])
        try:
            # One id that no embedding has, and SGLang's whole server ends.
            check_row(row.input_ids, [list(grid) for grid in row.grids], self._checkpoint)
        except InvalidRequest as error:
            raise RuntimeError(f"This row must not be sent: {error.message}") from error
        rows = [replace(row, seed=request.seed) for request in requests]
        outputs = self._pool.decode(rows, layout.source_count, watch)
        return [self._scribe.read(layout, row, tokens, codes) for tokens in outputs]


def prior_tokens(
    layout: Layout,
    row: Row,
    new_tokens: list[int],
    checkpoint: Checkpoint,
    codes: Tensor | None = None,
) -> PriorTokens:
    """Cuts the target out of the new tokens; raises EncoderFailed if it is not all there."""
    height, width = layout.target
    target = new_tokens[layout.offset : layout.offset + height * width]
    if len(target) < height * width:
        raise EncoderFailed(
            f"The encoder gave {len(new_tokens)} tokens, {layout.max_new_tokens - 1} are needed."
        )
    if not all(0 <= token < checkpoint.vocabulary_size for token in new_tokens):
        raise EncoderFailed("The encoder gave ids outside the vocabulary.")
    # An id beyond the codebook is an IndexError in the diffusion half, on a GPU a lost device.
    if not all(token < checkpoint.codebook_size for token in target):
        raise EncoderFailed("The encoder gave ids outside the codebook.")
    image_ids = grids = None
    if codes is not None:
        sources = layout.grids[: layout.source_count]
        parts = torch.split(codes, sources.prod(-1).tolist())
        shapes = sources[:, 1:].tolist()
        upsampled = [upsample(part, *shape) for part, shape in zip(parts, shapes, strict=True)]
        image_ids = [torch.cat(upsampled)]
        grids = [sources * torch.tensor([1, 2, 2])]
    return PriorTokens(
        prior_token_ids=upsample(torch.tensor(target), height, width)[None],
        prior_token_image_ids=image_ids,
        source_image_grid_thw=grids,
        prompt_tokens=len(row.input_ids),
        completion_tokens=len(new_tokens),
    )
