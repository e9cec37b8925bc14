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
    SILENT = "silent"


class Sign(Enum):
    """Names what can be seen of a server."""

    GOOD_PROBE = "good_probe"
    BAD_PROBE = "bad_probe"
    SILENT_AT_WORK = "silent_at_work"
    ANSWERED = "answered"
    LOST_ATTEMPT = "lost_attempt"


TRANSITIONS: Final = MappingProxyType(
    {
        (Health.DOWN, Sign.GOOD_PROBE): Health.UP,
        (Health.DOWN, Sign.BAD_PROBE): Health.DOWN,
        (Health.DOWN, Sign.SILENT_AT_WORK): Health.DOWN,
        # Work begun before it went down may still end well; only a probe brings it back.
        (Health.DOWN, Sign.ANSWERED): Health.DOWN,
        (Health.DOWN, Sign.LOST_ATTEMPT): Health.DOWN,
        (Health.UP, Sign.GOOD_PROBE): Health.UP,
        # One bad probe can be chance: keep the server, and look again.
        (Health.UP, Sign.BAD_PROBE): Health.DOUBTFUL,
        # Busy is not dead, but no more work until it speaks.
        (Health.UP, Sign.SILENT_AT_WORK): Health.SILENT,
        (Health.UP, Sign.ANSWERED): Health.UP,
        # A refused or broken connection is no chance: out until a probe says otherwise.
        (Health.UP, Sign.LOST_ATTEMPT): Health.DOWN,
        (Health.DOUBTFUL, Sign.GOOD_PROBE): Health.UP,
        (Health.DOUBTFUL, Sign.BAD_PROBE): Health.DOWN,
        (Health.DOUBTFUL, Sign.SILENT_AT_WORK): Health.SILENT,
        (Health.DOUBTFUL, Sign.ANSWERED): Health.DOUBTFUL,
        (Health.DOUBTFUL, Sign.LOST_ATTEMPT): Health.DOWN,
        (Health.SILENT, Sign.GOOD_PROBE): Health.UP,
        # It refuses connections, or is silent though nothing runs there any more.
        (Health.SILENT, Sign.BAD_PROBE): Health.DOWN,
        (Health.SILENT, Sign.SILENT_AT_WORK): Health.SILENT,
        (Health.SILENT, Sign.ANSWERED): Health.UP,
        (Health.SILENT, Sign.LOST_ATTEMPT): Health.DOWN,
    }
)


class HealthTrack:
    """Is the health of one server, moved by signs."""

    __slots__ = ("state", "was_up")

    def __init__(self) -> None:
        self.state = Health.DOWN
        self.was_up = False
        """Whether it was ever up."""

    @property
    def is_up(self) -> bool:
        """Tells whether the server counts as alive."""
        return self.state is not Health.DOWN

    @property
    def is_silent(self) -> bool:
        """Tells whether it is too busy to answer a probe."""
        return self.state is Health.SILENT

    def see(self, sign: Sign) -> bool:
        """Moves by one sign and tells whether `is_up` changed."""
        before = self.is_up
        self.state = TRANSITIONS[self.state, sign]
        self.was_up = self.was_up or self.is_up
        return self.is_up is not before
