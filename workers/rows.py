"""One row of autoregressive work, and its form on the wire. Knows no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn; temperature 0 is greedy, top_k 0 is no limit."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    ignore_eos: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """Ids to continue, with the grids (t, h, w) of its sources and then of its targets."""

    input_ids: Sequence[int]
    grids: Sequence[Sequence[int]]
    max_new_tokens: int
    seed: int | None = None
    sampling: Sampling = field(default_factory=Sampling)


def generate_payload(row: Row, sources: int = 0) -> dict[str, Any]:
    """The JSON of SGLang's `/generate`: the fields its own client sends, and how to sample.

    SGLang's prefix cache knows token ids only; with sources, `extra_key` tells it their grids.
    """
    sampling = row.sampling
    params: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_new_tokens": row.max_new_tokens,
        "ignore_eos": sampling.ignore_eos,
    }
    if sampling.top_k:
        params["top_k"] = sampling.top_k
    if row.seed is not None:
        params["sampling_seed"] = row.seed
    if sampling.logit_bias:
        params["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    payload: dict[str, Any] = {
        "input_ids": list(row.input_ids),
        "image_data": [{"image_grid_thw": [list(grid) for grid in row.grids]}],
        "sampling_params": params,
    }
    if sources:
        payload["extra_key"] = ",".join("x".join(map(str, g)) for g in row.grids[:sources])
    return payload


def list_payload(rows: Sequence[Row], sources: int = 0) -> dict[str, Any]:
    """The same for several rows as one batch: every field a list; one row in its single form."""
    payloads = [generate_payload(row, sources) for row in rows]
    if len(payloads) == 1:
        return payloads[0]
    return {key: [payload[key] for payload in payloads] for key in payloads[0]}
