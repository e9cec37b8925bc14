"""How long pictures really take here: GLM-Image on one H100 by its README, fitted.

Published for text-to-image of 512², 1024² and 2048²: 27.3, 64.3 and 252.6 s; here 26, 68 and
238 s. The product begins with other numbers (`gateway.routing.cost_model.PRIOR` says 17, 34 and
119 s), so it has to learn these from what it sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from gateway.routing.cost import Cost


@dataclass(frozen=True, slots=True)
class Truth:
    """Is the model of service times: seconds in all, per token, per pixel and step, and noise."""

    fixed: float = 6.0
    per_token: float = 0.0235
    per_pixel_step: float = 1.03e-6
    sigma: float = 0.1
    """Of the lognormal noise, whose median is 1."""
    scale: float = 1.0
    """Seconds of the run per second of the model."""

    def usual(self, cost: Cost) -> float:
        """Returns the seconds without noise."""
        work = self.per_token * cost.ar_tokens + self.per_pixel_step * cost.pixel_steps
        return self.scale * (self.fixed + work)

    def mean(self, cost: Cost) -> float:
        """Returns the expected seconds."""
        return self.usual(cost) * math.exp(self.sigma**2 / 2)

    def draw(self, cost: Cost, chance: random.Random) -> float:
        """Draws the seconds of one picture."""
        return self.usual(cost) * chance.lognormvariate(0.0, self.sigma)
