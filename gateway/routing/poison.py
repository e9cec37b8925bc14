"""Remembers requests that broke a worker, so that the same one does not break the next.

One that did gets one attempt at a time, and what it breaks again is not held against a worker.
"""

from __future__ import annotations

from typing import Final

MEMORY_SECONDS: Final = 600.0


class Poison:
    """Is the list of such requests, by digest; times are in seconds."""

    __slots__ = ("_at_work", "_until")

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._at_work: dict[str, int] = {}

    def add(self, digest: str, now: float) -> None:
        """Notes that a request broke a worker."""
        self._until = {known: until for known, until in self._until.items() if until > now}
        self._until[digest] = now + MEMORY_SECONDS

    def knows(self, digest: str, now: float) -> bool:
        """Tells whether a request broke a worker not long ago."""
        return self._until.get(digest, 0.0) > now

    def has_to_wait(self, digest: str, now: float) -> bool:
        """Tells whether a request of this content may not run beside the one that does."""
        return self._at_work.get(digest, 0) > 0 and self.knows(digest, now)

    def began(self, digest: str) -> None:
        """Counts a request in."""
        self._at_work[digest] = self._at_work.get(digest, 0) + 1

    def ended(self, digest: str) -> None:
        """Counts a request out."""
        left = self._at_work[digest] - 1
        if left:
            self._at_work[digest] = left
        else:
            del self._at_work[digest]
