"""Means over seeds with their 95 % confidence intervals (Student's t)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

T_97_5: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""Quantiles by degrees of freedom, from 1; beyond the table the last is kept, which is wider."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Is a mean, and how far the true one may be from it."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Takes one value per seed."""
        if len(values) < 2:
            return cls(mean(values), math.inf)
        t = T_97_5[min(len(values) - 1, len(T_97_5)) - 1]
        return cls(mean(values), t * stdev(values) / math.sqrt(len(values)))

    @property
    def is_above_zero(self) -> bool:
        """Tells whether the whole interval is above zero."""
        return self.mean - self.half > 0.0
