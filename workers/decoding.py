"""The encoder server's decoding thread: calls in, tokens out, several calls as one batch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from workers.checkpoint import Checkpoint
from workers.contract import MAX_ROWS
from workers.errors import CallerLeft
from workers.rows import Row, Sampling
from workers.runner import Run
from workers.telemetry import EncoderMetrics
from workers.watch import Watch

Tokens = list[list[int]]
Load = Callable[[], "LoadedDecoder"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """The rows of one call; `tell` hears their new tokens so far, if the call is streamed."""

    rows: Sequence[Row]
    tell: Callable[[Tokens], None] | None = None


@dataclass(frozen=True, slots=True)
class LoadedDecoder:
    """`decode` as in `workers.decode`, in the guard of its device, and its peak memory in MB."""

    decode: Callable[..., Tokens]
    peak_memory_mb: Callable[[], float]


def load_decoder(checkpoint: Checkpoint, device: str) -> LoadedDecoder:
    """Loads the language model and decodes a few tokens to warm it."""
    # Seconds of imports: they belong in the decoding thread, where /health can be asked already.
    from transformers import GlmImageForConditionalGeneration

    from workers.decode import Decoder
    from workers.device import guarded, load_part, peak_memory_mb, prepare_torch

    began = time.monotonic()
    where, dtype = prepare_torch(device)
    part = "vision_language_encoder"
    model = load_part(
        part,
        lambda: GlmImageForConditionalGeneration.from_pretrained(
            checkpoint.path / part, dtype=dtype, local_files_only=True
        ),
        where,
    )
    decoder = Decoder(model)
    decoder.decode([Row([checkpoint.start_token_id], [[1, 2, 2]], 5, 0, Sampling())])
    log.info("ready", model=checkpoint.name, seconds=round(time.monotonic() - began, 3))
    return LoadedDecoder(guarded()(decoder.decode), lambda: peak_memory_mb(where))


def may_join(running: Sequence[DecodeJob], job: DecodeJob) -> bool:
    """Calls share a batch if all their rows need the same number of steps, and fit."""
    rows = [row for each in (*running, job) for row in each.rows]
    return len(rows) <= MAX_ROWS and len({row.max_new_tokens for row in rows}) == 1


def decoding(decoder: LoadedDecoder, metrics: EncoderMetrics) -> Run[DecodeJob, Tokens]:
    """What runs in the thread: the calls' rows as one batch, and each call's share of it."""

    def run(jobs: Sequence[DecodeJob], watches: Sequence[Watch]) -> list[Tokens]:
        began = time.monotonic()
        rows = [row for job in jobs for row in job.rows]
        shares = _shares(jobs)

        def before_step(step: int, tokens: Any) -> None:
            if all(watch.has_left for watch in watches):
                raise CallerLeft
            if step:
                _tell(jobs, watches, shares, tokens)
            metrics.steps.inc()

        outputs = decoder.decode(rows, before_step)
        seconds = time.monotonic() - began
        count = sum(map(len, outputs))
        metrics.observe_batch(len(rows), count, seconds, decoder.peak_memory_mb())
        log.info(
            "decoded", calls=len(jobs), rows=len(rows), tokens=count, seconds=round(seconds, 3)
        )
        return [outputs[share] for share in shares]

    return run


def _shares(jobs: Sequence[DecodeJob]) -> list[slice]:
    shares, start = [], 0
    for job in jobs:
        shares.append(slice(start, start + len(job.rows)))
        start += len(job.rows)
    return shares


def _tell(
    jobs: Sequence[DecodeJob], watches: Sequence[Watch], shares: list[slice], tokens: Any
) -> None:
    """Ids leave the device only if somebody listens: on a GPU that costs a stop per step."""
    for job, watch, share in zip(jobs, watches, shares, strict=True):
        if job.tell is not None and not watch.has_left:
            job.tell(tokens[share].tolist())
