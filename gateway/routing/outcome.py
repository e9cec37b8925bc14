"""Decides what the end of an attempt means: may it be sent again, and is the worker ill?

A generation is sent again only when it is certain that no worker began it; every cause is in
the table. Knows nothing about sockets, clocks, or which worker is next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple


class Outcome(Enum):
    """Names how an attempt ends."""

    ANSWERED = "answered"
    REFUSED = "refused"
    BROKEN = "broken"
    TIMED_OUT = "timed_out"
    ABANDONED = "abandoned"


class Cause(Enum):
    """Names what was seen when an attempt ended."""

    ANSWER = "answer"
    UNREACHABLE = "unreachable"
    BUSY = "busy"
    TEXT_ONLY = "text_only"
    REJECTED = "rejected"
    LOST = "lost"
    BAD_STATUS = "bad_status"
    OUT_OF_MEMORY = "out_of_memory"
    RUBBISH = "rubbish"
    DEADLINE = "deadline"
    HUNG = "hung"
    CLIENT_LEFT = "client_left"


class Meaning(NamedTuple):
    """Is what a cause amounts to."""

    outcome: Outcome
    may_resend: bool
    is_ill: bool
    """Whether the worker is out until it answers a probe."""
    is_failure: bool
    """Whether it counts towards resting the worker."""
    breaks: bool
    """Whether the request may have broken the worker."""


MEANINGS: Final = MappingProxyType(
    {
        #                          outcome             resend  ill    failure breaks
        Cause.ANSWER: Meaning(Outcome.ANSWERED, False, False, False, False),
        # No connection came about, so nothing was read.
        Cause.UNREACHABLE: Meaning(Outcome.REFUSED, True, True, False, False),
        # The worker itself says 429 or 503, and does not say that work had started.
        Cause.BUSY: Meaning(Outcome.REFUSED, True, False, False, False),
        # The external-encoder refusal comes before any work; it tells of our table, not of health.
        Cause.TEXT_ONLY: Meaning(Outcome.REFUSED, True, False, False, False),
        # A 400 of the worker is the caller's fault, and would be the same anywhere.
        Cause.REJECTED: Meaning(Outcome.REFUSED, False, False, False, False),
        # From here on the worker may have begun, and a second run would be paid for twice.
        Cause.LOST: Meaning(Outcome.BROKEN, False, True, True, True),
        Cause.BAD_STATUS: Meaning(Outcome.BROKEN, False, False, True, False),
        Cause.OUT_OF_MEMORY: Meaning(Outcome.BROKEN, False, False, True, False),
        Cause.RUBBISH: Meaning(Outcome.BROKEN, False, False, True, False),
        # A failure only where it had the time that it should have needed.
        Cause.DEADLINE: Meaning(Outcome.TIMED_OUT, False, False, True, False),
        # Silent for a whole further deadline after its caller had given up.
        Cause.HUNG: Meaning(Outcome.TIMED_OUT, False, True, True, True),
        Cause.CLIENT_LEFT: Meaning(Outcome.ABANDONED, False, False, False, False),
    }
)


@dataclass(slots=True)
class Attempt:
    """Is one try of one request on one worker, numbered from 1; times are in seconds."""

    number: int
    worker: str
    pool: str
    started: float
    ended: float | None = None
    cause: Cause | None = None
    counts_tokens: bool = False
    """Whether its answer tells how many tokens were decoded."""
    given_up: Cause | None = None
    """Why the caller stopped waiting while the worker went on."""

    @property
    def seconds(self) -> float:
        """Tells how long the worker had it; zero while it runs."""
        return 0.0 if self.ended is None else self.ended - self.started
