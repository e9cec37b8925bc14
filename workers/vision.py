"""The vision tower and the quantiser alone: source pictures to codebook ids, no language model."""

from typing import Any

import torch
from transformers.models.glm_image.modeling_glm_image import (
    GlmImageModel,
    GlmImagePreTrainedModel,
    GlmImageVisionModel,
    GlmImageVQVAE,
)

from workers.checkpoint import Checkpoint


class SourceEncoder(GlmImageModel):  # type: ignore[misc]  # transformers has no types here
    """GlmImageModel without its language model: `get_image_features` and `get_image_tokens`."""

    _keys_to_ignore_on_load_unexpected = (r"language_model\.", r"^lm_head\.")

    def __init__(self, config: Any) -> None:
        # Past GlmImageModel's own, which builds the language model as well.
        GlmImagePreTrainedModel.__init__(self, config)
        self.visual = GlmImageVisionModel._from_config(config.vision_config)
        self.vqmodel = GlmImageVQVAE._from_config(config.vq_config)
        self.post_init()


def load_source_encoder(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    """Reads only its own tensors out of the language model's files; all of them must be there."""
    encoder, report = SourceEncoder.from_pretrained(
        checkpoint.path / "vision_language_encoder",
        dtype=dtype,
        local_files_only=True,
        output_loading_info=True,
    )
    if missing := report["missing_keys"]:
        raise RuntimeError(f"The checkpoint lacks {len(missing)} tensors: {sorted(missing)[:3]}")
    return encoder
