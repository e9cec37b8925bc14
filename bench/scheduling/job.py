"""One request of a trace, the same for every policy, and what became of it under one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.routing.cost import Cost
    from gateway.routing.request import Task

SMALL_SIDE = 768
"""Longest side of a request that counts as small, in pixels."""


@dataclass(frozen=True, slots=True)
class Job:
    """Is one request; `seconds` is what a well worker really needs, which no policy is told."""

    number: int
    task: Task
    side: int
    cost: Cost
    seconds: float
    arrived: float
    deadline: float
    caller: str

    @property
    def is_small(self) -> bool:
        """Tells whether it is one of those that a long one in front hurts most."""
        return self.side <= SMALL_SIDE

    def due(self, scale: float) -> float:
        """Returns when it should be done: after `scale` times its seconds, or by its deadline."""
        return min(self.arrived + scale * self.seconds, self.deadline)


@dataclass(slots=True)
class Fate:
    """Is what became of one job; `ended` is None where it got no answer within its deadline."""

    ended: float | None = None
    stints: list[tuple[float, float]] = field(default_factory=list)
    """When a worker was busy with it, from and to."""
    why: str = ""
    """Why it got no answer."""

    def answer(self, job: Job, now: float) -> None:
        """Notes an answer; one that nobody waits for any more is none."""
        if now > job.deadline:
            self.fail("deadline at work")
        elif not self.why:
            self.ended = now

    def fail(self, why: str) -> None:
        """Notes that it gets no answer; the first reason stays."""
        if self.ended is None and not self.why:
            self.why = why
