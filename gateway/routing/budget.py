"""Bounds how much work is sent again: a tenth of all attempts, and always a few."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_SECONDS: Final = 10.0
SHARE: Final = 0.1
FLOOR: Final = 10


class RetryBudget:
    """Is the allowance of one pool: per window SHARE of its first attempts, at least FLOOR."""

    __slots__ = ("_first", "_resent")

    def __init__(self) -> None:
        self._first: deque[float] = deque()
        self._resent: deque[float] = deque()

    def began(self, now: float) -> None:
        """Counts a first attempt."""
        self._first.append(now)
        self._look(now)

    def spend(self, now: float) -> bool:
        """Takes one resend out of the budget; False when there is none left."""
        self._look(now)
        if len(self._resent) >= max(FLOOR, SHARE * len(self._first)):
            return False
        self._resent.append(now)
        return True

    def _look(self, now: float) -> None:
        for times in (self._first, self._resent):
            while times and times[0] <= now - WINDOW_SECONDS:
                times.popleft()
