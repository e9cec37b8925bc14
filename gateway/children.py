"""Processes that end with this one, whatever ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.config_file import ENVIRONMENT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PR_SET_PDEATHSIG: Final = 1


@dataclass
class Child:
    """Is one process; `ready` tells whether it can be used."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: Callable[[], bool] = field(default=lambda: True)


def spawn(name: str, command: Sequence[str], log: Path) -> Child:
    """Starts a process with its output in a file, free of our own configuration variables."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)},
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
            preexec_fn=_die_with_parent(),
        )
    return Child(name, process, log)


def stop(children: Sequence[Child], seconds: float) -> None:
    """Asks processes to end, together, and kills those that have not after some seconds."""
    for child in children:
        child.process.terminate()
    end = time.monotonic() + seconds
    for child in children:
        try:
            child.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()


def _die_with_parent() -> Callable[[], None] | None:
    """Asks the kernel to end a child whose parent is gone, even by SIGKILL; Linux only."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was gone before it could be watched
            os._exit(1)

    return bind
