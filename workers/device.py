"""Where the model runs and how it is loaded: device, number type, threads, log of the parts."""

import gc
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import diffusers
import structlog
import torch
import transformers

from workers.errors import DeviceMissing, EngineBroken, OutOfMemory

MAX_THREADS = 8
# What torch says in a plain RuntimeError when the host's or a library's memory is full.
MEMORY_WORDS = ("can't allocate memory", "ALLOC_FAILED")

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


@contextmanager
def guarded() -> Iterator[None]:
    """Raises OutOfMemory with the memory free again, and EngineBroken for a lost device."""
    try:
        yield
    except torch.AcceleratorError as error:
        raise EngineBroken("The device's state is lost.") from error
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        # As text: a traceback would hold the tensors of the failed call, and so do its frames.
        log.error("out_of_memory", reason=str(error).partition("\n")[0])
        traceback.clear_frames(error.__traceback__)
    else:
        return
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    raise OutOfMemory


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(words in str(error) for words in MEMORY_WORDS)


def peak_memory_mb(device: torch.device) -> float:
    """The most memory held so far: of the GPU if it is one, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
