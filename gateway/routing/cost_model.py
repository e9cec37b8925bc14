"""Predicts how long a picture takes, learned from those that were finished: three coefficients.

seconds = a + b * tokens + c * pixels * steps. Before the first sample the published shape of
GLM-Image holds; then that shape at the scale that was seen; then what the samples say. The fit
is a ridge regression on relative errors, so small pictures count as much as large ones, and
an outlier counts less the farther it is out: in the last rounds next to nothing.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.routing.cost import Cost

PRIOR: Final = (2.0, 0.0156, 3.9e-7)
"""Seconds in all, per token and per pixel and step: one large GPU behind an external encoder."""
WINDOW: Final = 64
"""Finished pictures that are remembered."""
ENOUGH: Final = 8
"""Samples from which on the model is believed when it says that something is impossible."""
_MARGIN: Final = 0.9
"""What was never seen, but may be, as a share of the quickest that was."""
_DOUBT: Final = 0.95
"""What is left of the least after it has ruled out a request though nobody else was at work."""
_RIDGE: Final = 0.02
_FIRST_ROUNDS: Final = 3
_LAST_ROUNDS: Final = 3
_TOLERANCE: Final = 0.5
"""How far out a sample counts a quarter in the last rounds, as a share of what is predicted."""


class CostModel:
    """Is the prediction for one task in one pool."""

    __slots__ = ("_coefficients", "_is_stale", "_largest", "_least_ratio", "_new", "_samples")

    def __init__(self) -> None:
        self._samples: deque[tuple[tuple[float, float, float], float]] = deque(maxlen=WINDOW)
        self._coefficients = (1.0, 1.0, 1.0)
        self._least_ratio = 0.0
        self._largest: float | None = None
        """What is predicted for the largest that was seen; None while that is not worked out."""
        self._new = 0
        self._is_stale = False

    def __repr__(self) -> str:
        a, b, c = (k * prior for k, prior in zip(self._fitted(), PRIOR, strict=True))
        return f"<CostModel {a:.3g} s + {b:.3g} per token + {c:.3g} per pixel and step>"

    @property
    def is_trained(self) -> bool:
        """Tells whether it has seen enough to be relied on."""
        return len(self._samples) >= ENOUGH

    def seconds(self, cost: Cost) -> float:
        """Predicts the seconds at a worker of usual speed."""
        return _dot(self._fitted(), _parts(cost))

    def least_seconds(self, cost: Cost) -> float:
        """Returns the seconds below which nothing was seen to finish; 0 before enough samples."""
        coefficients = self._fitted()
        if not self.is_trained:
            return 0.0
        # Beyond what was seen nothing is certain but that it takes no less than the largest.
        if self._largest is None:  # worked out once per sample, because every waiter asks
            self._largest = max(_dot(coefficients, parts) for parts, _ in self._samples)
        return self._least_ratio * min(self._largest, _dot(coefficients, _parts(cost)))

    def doubt(self) -> None:
        """Trusts the past a little less: what it rules out is never tried, and so never learned."""
        self._least_ratio *= _DOUBT

    def learn(self, cost: Cost, seconds: float) -> None:
        """Takes in one finished picture; the next prediction fits anew, though not each time."""
        seconds = max(seconds, 1e-6)
        self._samples.append((_parts(cost), seconds))
        self._largest = None
        ratio = seconds / _dot(self._coefficients, _parts(cost))
        self._least_ratio = min(self._least_ratio, _MARGIN * ratio)
        self._new += 1
        if self._new * 8 >= len(self._samples):
            self._is_stale, self._new = True, 0

    def _fitted(self) -> tuple[float, float, float]:
        if self._is_stale:
            self._is_stale = False
            self._coefficients = _fit(self._samples)
            ratios = (seconds / _dot(self._coefficients, parts) for parts, seconds in self._samples)
            self._least_ratio = _MARGIN * min(ratios)
        return self._coefficients


def _parts(cost: Cost) -> tuple[float, float, float]:
    """Splits a cost into seconds by the prior: fixed, for the tokens, for the pixels."""
    return PRIOR[0], PRIOR[1] * cost.ar_tokens, PRIOR[2] * cost.pixel_steps


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _fit(
    samples: Sequence[tuple[tuple[float, float, float], float]],
) -> tuple[float, float, float]:
    """Returns a factor for each part of the prior.

    The first rounds measure against what was seen, so that one that took far too long has little
    leverage while the shape is not known yet; the last ones against what is predicted.
    """
    scale = median(seconds / sum(parts) for parts, seconds in samples)
    factors = [1.0, 1.0, 1.0]  # in units of the scale
    for number in range(_FIRST_ROUNDS + _LAST_ROUNDS):
        matrix = [[_RIDGE * (i == j) for j in range(3)] for i in range(3)]
        vector = [_RIDGE] * 3
        for parts, seconds in samples:
            predicted = scale * _dot(factors, parts)
            miss = max(seconds / predicted, predicted / seconds) - 1.0
            if number < _FIRST_ROUNDS:
                unit, weight = seconds, 1.0 / max(miss, 0.1) if number else 1.0
            else:
                unit, weight = predicted, (1.0 + (miss / _TOLERANCE) ** 2) ** -2
            row = [scale * part / unit for part in parts]
            for i in range(3):
                vector[i] += weight * row[i] * seconds / unit
                for j in range(3):
                    matrix[i][j] += weight * row[i] * row[j]
        for i in range(3):
            matrix[i][i] *= 1.0 + 1e-9  # so that equal samples, however far out, can be solved
        factors = _solve(matrix, vector)
    a, b, c = (factor * scale for factor in factors)
    return a, b, c


def _solve(matrix: list[list[float]], vector: list[float]) -> list[float]:
    """Solves for factors that are not negative: one that would be is held at a small share."""
    free = [0, 1, 2]
    held: dict[int, float] = {}
    while True:
        inner = [[matrix[i][j] for j in free] for i in free]
        right = [vector[i] - sum(matrix[i][j] * held[j] for j in held) for i in free]
        found = dict(zip(free, _eliminate(inner, right), strict=True))
        low = [i for i, factor in found.items() if factor < _LOWEST]
        if not low:
            return [held.get(i, found.get(i, _LOWEST)) for i in range(3)]
        held |= dict.fromkeys(low, _LOWEST)
        free = [i for i in free if i not in held]


_LOWEST: Final = 0.01


def _eliminate(matrix: list[list[float]], vector: list[float]) -> list[float]:
    """Solves a small positive definite system by elimination."""
    size = len(vector)
    rows = [[*row, right] for row, right in zip(matrix, vector, strict=True)]
    for i in range(size):
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][k] * found[k] for k in range(i + 1, size))
        found[i] = (rows[i][size] - rest) / rows[i][i]
    return found
