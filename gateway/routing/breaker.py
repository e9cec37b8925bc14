"""Decides when a worker that answers its probes but fails its work is rested, and tried again.

A row of failures opens the breaker; after a rest one request is let through as a trial, and
its end closes the breaker or doubles the rest. Time is an argument.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final

REST_SECONDS: Final = (5.0, 60.0)
"""The first rest, and the longest; each trial that fails doubles it."""


class Circuit(Enum):
    """Names the states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Event(Enum):
    """Names what moves it."""

    TRIPPED = "tripped"
    RESTED = "rested"
    PASSED = "passed"
    FAILED = "failed"


MOVES: Final = MappingProxyType(
    {
        # Closed: single failures are only counted; a row of them trips it.
        (Circuit.CLOSED, Event.TRIPPED): Circuit.OPEN,
        (Circuit.CLOSED, Event.RESTED): Circuit.CLOSED,
        (Circuit.CLOSED, Event.PASSED): Circuit.CLOSED,
        (Circuit.CLOSED, Event.FAILED): Circuit.CLOSED,
        # Open: what was begun before says nothing about now, so only rest moves it.
        (Circuit.OPEN, Event.TRIPPED): Circuit.OPEN,
        (Circuit.OPEN, Event.RESTED): Circuit.HALF_OPEN,
        (Circuit.OPEN, Event.PASSED): Circuit.OPEN,
        (Circuit.OPEN, Event.FAILED): Circuit.OPEN,
        # Half open: the trial decides.
        (Circuit.HALF_OPEN, Event.TRIPPED): Circuit.OPEN,
        (Circuit.HALF_OPEN, Event.RESTED): Circuit.HALF_OPEN,
        (Circuit.HALF_OPEN, Event.PASSED): Circuit.CLOSED,
        (Circuit.HALF_OPEN, Event.FAILED): Circuit.OPEN,
    }
)


class Breaker:
    """Is the circuit of one worker, or of a whole pool; `threshold` failures in a row trip it."""

    __slots__ = ("_rest", "reason", "row", "state", "threshold", "until")

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.state = Circuit.CLOSED
        self.row = 0
        """Failures in a row."""
        self.until = 0.0
        """When the rest is over."""
        self.reason = ""
        """Why it opened last."""
        self._rest = REST_SECONDS[0]

    @property
    def is_open(self) -> bool:
        """Tells whether nothing may pass."""
        return self.state is Circuit.OPEN

    @property
    def is_on_trial(self) -> bool:
        """Tells whether one request at a time may pass."""
        return self.state is Circuit.HALF_OPEN

    def is_trial(self, started: float) -> bool:
        """Tells whether what began then was let through after the rest, and not before it."""
        return started >= self.until

    def look(self, now: float) -> None:
        """Ends a rest that is over."""
        if self.is_open and now >= self.until:
            self._move(Event.RESTED, now)

    def passed(self, now: float) -> None:
        """Takes in a success."""
        self.row = 0
        self._move(Event.PASSED, now)
        if self.state is Circuit.CLOSED:
            self._rest = REST_SECONDS[0]

    def failed(self, now: float, reason: str, *, may_trip: bool = True) -> bool:
        """Takes in a failure, and tells whether that opened it."""
        self.row += 1
        was_open = self.is_open
        trips = may_trip and self.state is Circuit.CLOSED and self.row >= self.threshold
        self._move(Event.TRIPPED if trips else Event.FAILED, now, reason)
        return self.is_open and not was_open

    def trip(self, now: float, reason: str) -> bool:
        """Opens it at once, and tells whether it was not open before."""
        was_open = self.is_open
        self._move(Event.TRIPPED, now, reason)
        return not was_open

    def _move(self, event: Event, now: float, reason: str = "") -> None:
        before, self.state = self.state, MOVES[self.state, event]
        if self.is_open and before is not Circuit.OPEN:
            if before is Circuit.HALF_OPEN:
                self._rest = min(2 * self._rest, REST_SECONDS[1])
            self.until = now + self._rest
            self.reason = reason
            self.row = 0
