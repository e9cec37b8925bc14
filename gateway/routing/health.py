"""Decides from probes and attempts whether a server may be given work: one small table.

A server begins DOWN, so nobody is sent to it before it has answered once, and it comes back
by itself however long it was away. A silent server that holds our work is busy, not dead.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final


class Health(Enum):
    """Names the states."""

    DOWN = "down"
    UP = "up"
    DOUBTFUL = "doubtful"


class Sign(Enum):
    """Names what can be seen of a server."""

    GOOD_PROBE = "good_probe"
    BAD_PROBE = "bad_probe"
    SILENT_AT_WORK = "silent_at_work"
    LOST_ATTEMPT = "lost_attempt"


TRANSITIONS: Final = MappingProxyType(
    {
        (Health.DOWN, Sign.GOOD_PROBE): Health.UP,
        (Health.DOWN, Sign.BAD_PROBE): Health.DOWN,
        (Health.DOWN, Sign.SILENT_AT_WORK): Health.DOWN,
        (Health.DOWN, Sign.LOST_ATTEMPT): Health.DOWN,
        (Health.UP, Sign.GOOD_PROBE): Health.UP,
        # One bad probe can be chance: keep the server, and look again.
        (Health.UP, Sign.BAD_PROBE): Health.DOUBTFUL,
        (Health.UP, Sign.SILENT_AT_WORK): Health.UP,
        # A refused or broken connection is no chance: out until a probe says otherwise.
        (Health.UP, Sign.LOST_ATTEMPT): Health.DOWN,
        (Health.DOUBTFUL, Sign.GOOD_PROBE): Health.UP,
        (Health.DOUBTFUL, Sign.BAD_PROBE): Health.DOWN,
        (Health.DOUBTFUL, Sign.SILENT_AT_WORK): Health.DOUBTFUL,
        (Health.DOUBTFUL, Sign.LOST_ATTEMPT): Health.DOWN,
    }
)


class HealthTrack:
    """Is the health of one server, moved by signs."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = Health.DOWN

    @property
    def is_up(self) -> bool:
        """Tells whether the server may be given work."""
        return self.state is not Health.DOWN

    def see(self, sign: Sign) -> bool:
        """Moves by one sign and tells whether `is_up` changed."""
        before = self.is_up
        self.state = TRANSITIONS[self.state, sign]
        return self.is_up is not before
