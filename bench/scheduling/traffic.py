"""Who asks when for what: arrivals, sizes, tasks and callers, drawn once for all policies."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from bench.scheduling.job import Job
from bench.scheduling.truth import Truth
from gateway.routing.cost import Cost, cost_of
from gateway.routing.request import ImageRequest, Size, Task

SIZES: Final = MappingProxyType(
    {
        "uniform": MappingProxyType({512: 0.2, 768: 0.2, 1024: 0.2, 1536: 0.2, 2048: 0.2}),
        "skewed": MappingProxyType({512: 0.5, 768: 0.25, 1024: 0.15, 1536: 0.07, 2048: 0.03}),
    }
)
"""Shares of the sides, in pixels."""
CALLERS: Final = 10


@dataclass(frozen=True, slots=True)
class Traffic:
    """Is a kind of traffic; `load` is the work that arrives as a share of the workers' capacity."""

    load: float
    workers: int = 4
    sizes: str = "skewed"
    cv: float = 1.0
    """Coefficient of variation between arrivals: 1 is Poisson, more comes in bursts (Gamma)."""
    edits: float = 0.0
    """Share of image-to-image."""
    flood: float = 0.0
    """Share of the requests that the first caller sends, besides its even share of the rest."""
    requests: int = 1000
    deadline_seconds: float = 600.0
    truth: Truth = field(default_factory=Truth)

    def trace(self, seed: int) -> list[Job]:
        """Draws the requests; the same seed gives the same, whoever serves them."""
        chance = random.Random(f"{seed} {self.sizes} {self.cv} {self.edits}")
        sides = list(SIZES[self.sizes])
        weights = list(SIZES[self.sizes].values())
        tasks = (Task.T2I, Task.I2I)
        shares = (1.0 - self.edits, self.edits)
        kinds = {(task, side): _cost(task, side) for task in tasks for side in sides}
        mean = sum(
            share * weight * self.truth.mean(kinds[task, side])
            for task, share in zip(tasks, shares, strict=True)
            for side, weight in zip(sides, weights, strict=True)
        )
        gap = mean / (self.load * self.workers)
        shape = self.cv**-2
        jobs, now = [], 0.0
        for number in range(self.requests):
            now += chance.gammavariate(shape, gap / shape)
            [task] = chance.choices(tasks, shares)
            [side] = chance.choices(sides, weights)
            cost = kinds[task, side]
            seconds = self.truth.draw(cost, chance)
            is_flood = chance.random() < self.flood
            caller = f"caller {0 if is_flood else chance.randrange(CALLERS)}"
            deadline = now + self.deadline_seconds
            jobs.append(Job(number, task, side, cost, seconds, now, deadline, caller))
        return jobs


def _cost(task: Task, side: int) -> Cost:
    return cost_of(ImageRequest(task=task, prompt=""), Size(side, side))
