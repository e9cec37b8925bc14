"""Where the model runs and how it is loaded: device, number type, threads, log of the parts."""

import os
import time
from collections.abc import Callable
from typing import Any

import diffusers
import structlog
import torch
import transformers

from workers.errors import DeviceMissing

MAX_THREADS = 8

log = structlog.get_logger()


def prepare_torch(device: str) -> tuple[torch.device, torch.dtype]:
    """The device for `auto`, `cpu` or `cuda` with its number type; quiets the libraries."""
    for library in (transformers, diffusers):
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise DeviceMissing("There is no CUDA device, or torch is a build without CUDA.")
    if has_gpu and device != "cpu":
        return torch.device("cuda"), torch.bfloat16
    if "OMP_NUM_THREADS" not in os.environ:
        # Several of these processes share a machine, and small models gain nothing from many.
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(max(1, min(cores // 2, MAX_THREADS)))
    return torch.device("cpu"), torch.float32


def load_part(name: str, load: Callable[[], Any], device: torch.device | None = None) -> Any:
    """Loads one part of the model, moves it to the device, and logs how long that took."""
    began = time.monotonic()
    part = load()
    if device is not None:
        part = part.eval().requires_grad_(False).to(device)
    log.info("loaded", part=name, seconds=round(time.monotonic() - began, 3))
    return part
