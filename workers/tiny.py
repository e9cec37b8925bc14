"""Writes a tiny random GLM-Image checkpoint with the real architecture, for laptops and tests.

The geometry is the real model's: 32 pixels per encoder token, 16 per diffusion token.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    GlmImagePipeline,
    GlmImageTransformer2DModel,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    ByT5Tokenizer,
    GlmImageConfig,
    GlmImageForConditionalGeneration,
    GlmImageProcessor,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)
from transformers.models.glm_image.image_processing_pil_glm_image import GlmImageImageProcessorPil

from workers.device import prepare_torch

CODEBOOK = 256  # real: 16384
START, END = 256, 257  # real: 16384, 16385; also begin and end of text
OUTPUT_ROWS = 272  # real: 16512, the codebook and 128 reserved rows
MIN_SIDE, MAX_SIDE = 64, 512  # real: 512 and 2048
SPECIAL = (
    "<|endoftext|>",
    "[gMASK]",
    "<sop>",
    "<eop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|image|>",
)
VISUAL = tuple(f"<|dit_token_{number}|>" for number in range(OUTPUT_ROWS))
PAD = OUTPUT_ROWS + 256  # after the visual tokens and one token per byte
IMAGE = PAD + SPECIAL.index("<|image|>")
# Each source: begin, one placeholder (the processor repeats it), end; then the text.
CHAT_TEMPLATE = (
    "{%- for m in messages -%}{%- if m.content is string -%}{{ m.content }}{%- else -%}"
    "{%- for c in m.content -%}{%- if c.type == 'image' -%}"
    f"{VISUAL[START]}<|image|>{VISUAL[END]}"
    "{%- elif c.type == 'text' -%}{{ c.text }}{%- endif -%}{%- endfor -%}"
    "{%- endif -%}{%- endfor -%}"
)


def write_tiny(directory: Path, seed: int = 0) -> int:
    """Writes the checkpoint and returns its size in bytes; equal seeds give equal bytes.

    It is written beside its place and then renamed, so that no one ever sees half of it.
    """
    prepare_torch("cpu")
    directory.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        build_tiny(seed).save_pretrained(beside, safe_serialization=True)
        _name_libraries(beside / "model_index.json")
        files = [file for file in beside.rglob("*") if file.is_file()]
        for file in files:
            file.chmod(0o644)
        beside.chmod(0o755)
        beside.rename(directory)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def build_tiny(seed: int = 0) -> Any:
    """The whole pipeline with random weights."""
    torch.manual_seed(seed)
    language = _language_model()
    torch.manual_seed(seed + 1)
    return GlmImagePipeline(
        tokenizer=ByT5Tokenizer(extra_ids=0),
        processor=_processor(),
        vision_language_encoder=language,
        text_encoder=T5EncoderModel(
            T5Config(
                vocab_size=384,
                d_model=32,
                d_kv=8,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                feed_forward_proj="gated-gelu",
                is_encoder_decoder=False,
                use_cache=False,
            )
        ),
        transformer=GlmImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=16,
            num_layers=2,
            attention_head_dim=16,
            num_attention_heads=4,
            text_embed_dim=32,
            time_embed_dim=32,
            condition_dim=16,
            prior_vq_quantizer_codebook_size=CODEBOOK,
        ),
        vae=AutoencoderKL(
            in_channels=3,
            out_channels=3,
            latent_channels=16,
            block_out_channels=(8, 16, 16, 16),
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            layers_per_block=1,
            norm_num_groups=4,
            sample_size=128,
            use_quant_conv=False,
            use_post_quant_conv=False,
            latents_mean=[0.0] * 16,
            latents_std=[1.0] * 16,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(
            num_train_timesteps=1000,
            use_dynamic_shifting=True,
            time_shift_type="linear",
            base_shift=0.25,
            max_shift=0.75,
            base_image_seq_len=256,
        ),
    )


def _tokenizer() -> Any:
    """Visual tokens, one token per byte, then the specials."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: at for at, token in enumerate((*VISUAL, *alphabet, *SPECIAL))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*VISUAL, *SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        padding_side="left",
        model_max_length=131072,
        bos_token=VISUAL[START],
        eos_token=VISUAL[END],
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "image_token": "<|image|>",
            "grid_bos_token": "<sop>",
            "grid_eos_token": "<eop>",
        },
        model_input_names=["input_ids", "attention_mask"],
    )


def _processor() -> Any:
    return GlmImageProcessor(
        image_processor=GlmImageImageProcessorPil(
            patch_size=16,
            merge_size=1,
            temporal_patch_size=1,
            size={"shortest_edge": MIN_SIDE**2, "longest_edge": MAX_SIDE**2},
        ),
        tokenizer=_tokenizer(),
        chat_template=CHAT_TEMPLATE,
    )


def _language_model() -> Any:
    text = {
        "vocab_size": PAD + len(SPECIAL),
        "vision_vocab_size": OUTPUT_ROWS,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "eos_token_id": END,
        "pad_token_id": PAD,
        "initializer_range": 0.2,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        },
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "num_heads": 2,
        "intermediate_size": 64,
        "image_size": 256,
        "patch_size": 16,
        "initializer_range": 0.2,
    }
    model: Any = GlmImageForConditionalGeneration(
        GlmImageConfig(
            image_token_id=IMAGE,
            image_start_token_id=START,
            image_end_token_id=END,
            text_config=text,
            vision_config=vision,
            vq_config={"embed_dim": 32, "latent_channels": 32, "num_embeddings": CODEBOOK},
        )
    )
    torch.nn.init.normal_(model.model.vqmodel.quantize.embedding.weight)
    model.generation_config._from_model_config = False
    # The real model is trained not to draw reserved ids; a random one must be told.
    model.generation_config.update(
        do_sample=True,
        temperature=0.9,
        top_p=0.75,
        suppress_tokens=list(range(CODEBOOK, OUTPUT_ROWS)),
        eos_token_id=END,
        pad_token_id=PAD,
    )
    return model


def _name_libraries(index: Path) -> None:
    """diffusers writes `glm_image` as the library of these two; SGLang wants `transformers`."""
    facts = json.loads(index.read_text())
    for part in ("processor", "vision_language_encoder"):
        facts[part][0] = "transformers"
    index.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n")
