"""GLM-Image on torch: an encoder for the prior tokens, diffusers' pipeline for the rest."""

import resource
import time
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
from workers.device import load_part, prepare_torch
from workers.encoder import Encoder, InProcessEncoder, PriorTokens, RemoteEncoder
from workers.engine import HasLeft, ImageLimits, Picture, PictureRequest
from workers.errors import CallerLeft, EngineBroken


def load_engine(checkpoint: Checkpoint, encoder_url: str | None, device: str) -> "GlmImageEngine":
    """Loads every part that is needed; with an external encoder, none of the language model."""
    where, dtype = prepare_torch(device)
    at, options = checkpoint.path, {"local_files_only": True}

    def model(part: str, kind: Any, **more: Any) -> Any:
        return load_part(
            part, lambda: kind.from_pretrained(at / part, **options, **more), device=where
        )

    processor = load_part("processor", lambda: load_processor(checkpoint))
    encoder: Encoder
    if encoder_url is None:
        # Keyword names differ between the two libraries' versions in use.
        language = model("vision_language_encoder", GlmImageForConditionalGeneration, dtype=dtype)
        encoder = InProcessEncoder(language, processor, checkpoint)
    else:
        encoder = RemoteEncoder(encoder_url, processor, checkpoint)
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
            self.diffuse(request, PriorTokens(blank), lambda: False)
        else:
            self.generate(request, lambda: False)

    def generate(self, request: PictureRequest, has_left: HasLeft) -> Picture:
        """Encodes, then diffuses; the same seed begins both."""
        try:
            began = time.monotonic()
            prior = self._encoder.encode(request, has_left)
            encoded = time.monotonic()
            image, denoise, decode = self.diffuse(request, prior, has_left)
        except torch.AcceleratorError as error:
            raise EngineBroken("The device's state is lost.") from error
        return Picture(
            image,
            prior.prompt_tokens,
            prior.completion_tokens,
            {"encode": encoded - began, "denoise": denoise, "decode": decode},
        )

    def diffuse(
        self, request: PictureRequest, prior: PriorTokens, has_left: HasLeft
    ) -> tuple[Any, float, float]:
        """Prior tokens to a picture, with the seconds until the last step and after it."""
        began = time.monotonic()
        steps_ended = began

        def after_step(*_: Any) -> dict[str, Any]:
            nonlocal steps_ended
            if has_left():
                raise CallerLeft
            steps_ended = time.monotonic()
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
        return image, steps_ended - began, time.monotonic() - steps_ended

    def peak_memory_mb(self) -> float:
        """Of the GPU if there is one, else of the process."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
