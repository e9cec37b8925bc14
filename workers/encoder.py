"""The autoregressive half behind one protocol: in this process, or an SGLang server by URL."""

from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import torch
from torch import Tensor

from workers.checkpoint import Checkpoint
from workers.decode import Decoder
from workers.engine import REFUSAL, HasLeft, PictureRequest
from workers.errors import EncoderError, EncoderUnreachable, WorkLost
from workers.layout import Layout, lay_out, source_codes, upsample
from workers.rows import Row, generate_payload

CONNECT_SECONDS = 3.05
READ_SECONDS = 100.0


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

    def encode(self, request: PictureRequest, has_left: HasLeft) -> PriorTokens:
        """The prior tokens of one picture."""


class InProcessEncoder:
    """Language model, vision tower and quantiser in this process."""

    def __init__(self, model: Any, processor: Any, checkpoint: Checkpoint) -> None:
        self._model = model
        self._processor = processor
        self._checkpoint = checkpoint
        self._decoder = Decoder(model)

    def encode(self, request: PictureRequest, has_left: HasLeft) -> PriorTokens:
        """Decodes here; sources become codes in place of their placeholders."""
        layout, row, codes = self.row(request)
        return prior_tokens(
            layout, row, self._decoder.decode([row], has_left)[0], self._checkpoint, codes
        )

    @torch.inference_mode()
    def row(self, request: PictureRequest) -> tuple[Layout, Row, Tensor | None]:
        """The row to decode with its layout, and the sources' codes at 32 pixels."""
        layout = lay_out(self._processor, request, self._checkpoint.context_length)
        ids, codes = layout.input_ids, None
        if request.sources:
            codes = source_codes(self._model, layout)
            ids = ids.masked_scatter(ids == self._checkpoint.image_token_id, codes)
        return layout, layout.row(ids, request.seed, self._checkpoint.sampling), codes


class RemoteEncoder:
    """An encoder server with SGLang's `/generate`; text only, as SGLang's own client."""

    def __init__(self, url: str, processor: Any, checkpoint: Checkpoint) -> None:
        self._url = url
        self._processor = processor
        self._checkpoint = checkpoint
        self._timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        self._tls = httpx.create_ssl_context(trust_env=False)

    def encode(self, request: PictureRequest, has_left: HasLeft) -> PriorTokens:
        """Decodes there, with the same sampling as in process.

        Raises EncoderUnreachable before any work, WorkLost after, EncoderError for a bad answer.
        """
        if request.sources:
            raise NotImplementedError(REFUSAL)
        layout = lay_out(self._processor, request, self._checkpoint.context_length)
        row = layout.row(layout.input_ids, request.seed, self._checkpoint.sampling)
        return prior_tokens(layout, row, self._ask(row), self._checkpoint)

    def _ask(self, row: Row) -> list[int]:
        try:
            # A connection per call: a kept one that the encoder had closed would look like lost
            # work, and a refused one proves that nothing began.
            answer = httpx.post(
                f"{self._url}/generate",
                json=generate_payload(row),
                timeout=self._timeout,
                verify=self._tls,
                trust_env=False,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise EncoderUnreachable from error
        except httpx.TransportError as error:
            raise WorkLost("The external encoder broke off.") from error
        if answer.status_code in (429, 503):
            raise EncoderUnreachable("The external encoder is busy or loading.")
        if answer.status_code != 200:
            raise EncoderError(f"The encoder answered {answer.status_code}.")
        return output_ids(answer)


def output_ids(answer: httpx.Response) -> list[int]:
    """The new tokens of a single `/generate` answer; raises EncoderError."""
    try:
        ids = answer.json()["output_ids"]
    except (ValueError, KeyError, TypeError) as error:
        raise EncoderError("The encoder's answer is not JSON with output_ids.") from error
    if not isinstance(ids, list) or not all(type(token) is int for token in ids):
        raise EncoderError("The encoder's output_ids are not a list of integers.")
    return ids


def prior_tokens(
    layout: Layout,
    row: Row,
    new_tokens: list[int],
    checkpoint: Checkpoint,
    codes: Tensor | None = None,
) -> PriorTokens:
    """Cuts the target out of the new tokens; raises EncoderError if it is not all there."""
    height, width = layout.target
    target = new_tokens[layout.offset : layout.offset + height * width]
    if len(target) < height * width:
        raise EncoderError(
            f"The encoder gave {len(new_tokens)} tokens, {layout.max_new_tokens - 1} are needed."
        )
    # An id beyond the codebook is an IndexError in the diffusion half, on a GPU a lost device.
    if not all(0 <= token < checkpoint.codebook_size for token in target):
        raise EncoderError("The encoder gave ids outside the codebook.")
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
