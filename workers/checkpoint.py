"""Facts of a GLM-Image checkpoint, read from its JSON files. Knows no torch."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.engine import ImageLimits
from workers.errors import CheckpointError
from workers.rows import Sampling

PARTS = (
    "processor",
    "scheduler",
    "text_encoder",
    "tokenizer",
    "transformer",
    "vae",
    "vision_language_encoder",
)
# Ids never to be sampled get this bias; SGLang takes no list of suppressed ids, and JSON no -inf.
NEVER = -1e9


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the HTTP face and the encoder's contract must know before the weights are loaded."""

    path: Path
    limits: ImageLimits
    vocabulary_size: int
    codebook_size: int
    context_length: int
    image_token_id: int
    start_token_id: int
    end_token_id: int
    sampling: Sampling

    @property
    def name(self) -> str:
        """The directory's last part: the model's name without its path."""
        return self.path.resolve().name


def read_checkpoint(path: Path) -> Checkpoint:
    """Reads the facts; raises CheckpointError if the directory is missing or incomplete."""
    if not path.is_dir():
        raise CheckpointError(f"There is no model directory at {path}.")
    index = _read(path / "model_index.json")
    if index.get("_class_name") != "GlmImagePipeline":
        raise CheckpointError(f"{path} holds no GLM-Image checkpoint (model_index.json says so).")
    for part in PARTS:
        if not (path / part).is_dir():
            raise CheckpointError(f"The checkpoint at {path} is incomplete: {part} is missing.")
    config = _read(path / "vision_language_encoder" / "config.json")
    text = config.get("text_config", {})
    codebook = config.get("vq_config", {}).get("num_embeddings", 16384)
    output_rows = text.get("vision_vocab_size", 16512)
    return Checkpoint(
        path=path,
        limits=_limits(path / "processor"),
        vocabulary_size=text.get("vocab_size", 168064),
        codebook_size=codebook,
        context_length=text.get("max_position_embeddings", 131072),
        image_token_id=config.get("image_token_id", 167855),
        start_token_id=config.get("image_start_token_id", 16384),
        end_token_id=config.get("image_end_token_id", 16385),
        sampling=_sampling(path / "vision_language_encoder", codebook, output_rows),
    )


def _limits(processor: Path) -> ImageLimits:
    for name in ("processor_config.json", "preprocessor_config.json"):
        if (processor / name).exists():
            facts = _read(processor / name)
            size = facts.get("image_processor", facts).get("size", {})
            if "shortest_edge" in size and "longest_edge" in size:  # both are numbers of pixels
                return ImageLimits(
                    math.isqrt(size["shortest_edge"]), math.isqrt(size["longest_edge"])
                )
    return ImageLimits()


def _sampling(folder: Path, codebook: int, output_rows: int) -> Sampling:
    facts = _read(folder / "generation_config.json")
    # The diffusion half has no row for ids beyond the codebook, so they are always suppressed.
    never = {*(facts.get("suppress_tokens") or ()), *range(codebook, output_rows)}
    greedy = facts.get("do_sample") is False
    return Sampling(
        temperature=0.0 if greedy else float(facts.get("temperature") or 1.0),
        top_p=float(facts.get("top_p") or 1.0),
        top_k=int(facts.get("top_k") or 0),
        logit_bias=dict.fromkeys(sorted(never), NEVER),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_text())
    except OSError as error:
        raise CheckpointError(
            f"{file.parent} holds no GLM-Image checkpoint: {file.name} cannot be read."
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{file} is not valid JSON.") from error
    if not isinstance(facts, dict):
        raise CheckpointError(f"{file} is not a JSON object.")
    return facts
