"""Between an engine and whoever waits for it: how far the work is, and whether it is wanted.

Knows no HTTP and no torch.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from workers.errors import CallerLeft

Stage = Literal["waiting", "encoding", "denoising", "decoding"]
Hear = Callable[["Progress"], None]

QUIET_SECONDS = 0.1  # tokens come faster than anybody reads


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one picture is: tokens while encoding, steps while denoising."""

    stage: Stage
    done: int = 0
    total: int = 0


class Watch:
    """Is looked at between two steps; `leave` may be called from any thread."""

    def __init__(self, hear: Hear | None = None) -> None:
        self.has_left = False
        self._hear = hear
        self._when_left: Callable[[], None] = _nothing
        self._heard: Progress | None = None
        self._heard_at = float("-inf")

    def leave(self) -> None:
        """Tells the engine that nobody waits any more."""
        self.has_left = True
        self._when_left()

    def when_left(self, call: Callable[[], None]) -> None:
        """Calls back, maybe from another thread and maybe twice, as soon as nobody waits."""
        self._when_left = call
        if self.has_left:
            call()

    def at(self, stage: Stage, done: int, total: int) -> None:
        """Stands between two steps: raises CallerLeft, or passes on how far the work is."""
        if self.has_left:
            raise CallerLeft
        progress = Progress(stage, done, total)
        if self._hear is None or progress == self._heard:
            return
        now = time.monotonic()
        if self._is_news(progress) or now - self._heard_at >= QUIET_SECONDS:
            self._heard, self._heard_at = progress, now
            self._hear(progress)

    def _is_news(self, progress: Progress) -> bool:
        """Steps always are; of tokens only the first and the last."""
        if self._heard is None or progress.stage != "encoding":
            return True
        is_first = (self._heard.stage, self._heard.total) != (progress.stage, progress.total)
        return is_first or progress.done == progress.total


def _nothing() -> None:
    """Nobody wants to know."""
