"""GLM-Image on torch: an encoder for the prior tokens, diffusers' pipeline for the rest."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    GlmImagePipeline,
    GlmImageTransformer2DModel,
)
from transformers import (
    ByT5Tokenizer,
    GlmImageForConditionalGeneration,
    GlmImageProcessor,
    T5EncoderModel,
)

from workers.checkpoint import Checkpoint
from workers.device import guarded, load_part, peak_memory_mb, prepare_torch
from workers.encoder import Encoder, InProcessEncoder, PriorTokens, RemoteEncoder
from workers.engine import ImageLimits, Picture, PictureRequest, Task
from workers.remote import EncoderPool
from workers.vision import load_source_encoder
from workers.watch import Watch


def load_engine(
    checkpoint: Checkpoint,
    encoder_urls: Sequence[str],
    device: str,
    tasks: Sequence[Task] = ("t2i", "i2i"),
) -> "GlmImageEngine":
    """Loads every part that is needed, and no other.

    With an external encoder nothing of the language model; of its checkpoint the vision tower
    and the quantiser alone, and these for edits only.
    """
    where, dtype = prepare_torch(device)
    at, options = checkpoint.path, {"local_files_only": True}

    def model(part: str, kind: Any, **more: Any) -> Any:
        return load_part(
            part, lambda: kind.from_pretrained(at / part, **options, **more), device=where
        )

    processor = load_part("processor", lambda: load_processor(checkpoint))
    encoder: Encoder
    if not encoder_urls:
        # Keyword names differ between the two libraries' versions in use.
        language = model("vision_language_encoder", GlmImageForConditionalGeneration, dtype=dtype)
        encoder = InProcessEncoder(language, processor, checkpoint)
    else:
        vision = None
        if "i2i" in tasks:
            vision = load_part("vision", lambda: load_source_encoder(checkpoint, dtype), where)
        encoder = RemoteEncoder(EncoderPool(encoder_urls), processor, checkpoint, vision)
    pipeline: Any = GlmImagePipeline(
        tokenizer=load_part(
            "tokenizer", lambda: ByT5Tokenizer.from_pretrained(at / "tokenizer", **options)
        ),
        processor=processor,
        text_encoder=model("text_encoder", T5EncoderModel, dtype=dtype),
        vision_language_encoder=None,  # the encoder above takes its place
        vae=model("vae", AutoencoderKL, torch_dtype=dtype),
        transformer=model("transformer", GlmImageTransformer2DModel, torch_dtype=dtype),
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(at / "scheduler", **options),
    )
    pipeline.set_progress_bar_config(disable=True)
    return GlmImageEngine(pipeline, encoder, checkpoint.limits, where)


def load_processor(checkpoint: Checkpoint) -> Any:
    """The processor alone: tokenizer, chat template and the size rules for sources."""
    return GlmImageProcessor.from_pretrained(checkpoint.path / "processor", local_files_only=True)


class GlmImageEngine:
    """One pipeline, one picture at a time: the pipeline keeps the values of a call on itself."""

    def __init__(
        self, pipeline: Any, encoder: Encoder, limits: ImageLimits, device: torch.device
    ) -> None:
        self._pipeline = pipeline
        self._encoder = encoder
        self._limits = limits
        self._device = device

    def warm_up(self) -> None:
        """One step at the smallest size; an external encoder is left out, it may come later."""
        side = self._limits.min_side
        request = PictureRequest("warm-up", side, side, steps=1, guidance=1.5, seed=0)
        if isinstance(self._encoder, RemoteEncoder):
            blank = torch.zeros(1, (side // 16) ** 2, dtype=torch.long)
            self._picture(request, PriorTokens(blank), 0.0, Watch())
        else:
            self.generate([request], Watch())

    def generate(self, requests: Sequence[PictureRequest], watch: Watch) -> list[Picture]:
        """Encodes all together, then diffuses each; the same seed begins both."""
        began = time.monotonic()
        with guarded():
            priors = self._encoder.encode(requests, watch)
            seconds = (time.monotonic() - began) / len(requests)
            return [
                self._picture(request, prior, seconds, watch)
                for request, prior in zip(requests, priors, strict=True)
            ]

    def _picture(
        self, request: PictureRequest, prior: PriorTokens, encode_seconds: float, watch: Watch
    ) -> Picture:
        began = time.monotonic()
        steps_ended = began
        watch.at("denoising", 0, request.steps)

        def after_step(_: Any, step: int, *__: Any) -> dict[str, Any]:
            nonlocal steps_ended
            watch.at("denoising", step + 1, request.steps)
            if step + 1 == request.steps:
                steps_ended = time.monotonic()
                watch.at("decoding", 0, 1)
            return {}

        def on_device(parts: list[torch.Tensor] | None) -> list[torch.Tensor] | None:
            return None if parts is None else [part.to(self._device) for part in parts]

        image = self._pipeline(
            prompt=request.prompt,
            image=[list(request.sources)] if request.sources else None,
            height=request.height,
            width=request.width,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            # On the CPU, so that a seed means the same noise on every device.
            generator=torch.Generator().manual_seed(request.seed),
            prior_token_ids=prior.prior_token_ids.to(self._device),
            prior_token_image_ids=on_device(prior.prior_token_image_ids),
            source_image_grid_thw=on_device(prior.source_image_grid_thw),
            callback_on_step_end=after_step,
        ).images[0]
        seconds = {
            "encode": encode_seconds,
            "denoise": steps_ended - began,
            "decode": time.monotonic() - steps_ended,
        }
        return Picture(image, prior.prompt_tokens, prior.completion_tokens, seconds)

    def peak_memory_mb(self) -> float:
        """Of the GPU if there is one, else of the process."""
        return peak_memory_mb(self._device)
