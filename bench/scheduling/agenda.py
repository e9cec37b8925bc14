"""What happens next: calls at times, the earliest first."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Agenda:
    """Is the clock of a simulation and all that is still to happen; times are in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._count = count()
        self._entries: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: float, call: Callable[..., None], *given: Any) -> None:
        """Notes a call; those of the same time are made in the order in which they were noted."""
        heapq.heappush(self._entries, (max(time, self.now), next(self._count), call, given))

    def run(self) -> None:
        """Makes every call, until nothing is left."""
        while self._entries:
            self.now, _, call, given = heapq.heappop(self._entries)
            call(*given)
