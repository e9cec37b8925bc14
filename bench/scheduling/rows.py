"""The results as rows for machines: scenario, metric, value, unit, versus, ratio."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from bench.scheduling.experiment import BOUND, PRODUCT
from bench.scheduling.measures import UNITS
from bench.scheduling.simulation import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.scheduling.experiment import Findings
    from bench.scheduling.validation import Agreement

    Row = dict[str, str | float | None]

PAIRED: Final = ("attainment_3", "goodput", "slowdown_small_p99")
"""Measures whose differences are worth their own rows."""


def rows(findings: Sequence[Findings], agreements: Sequence[Agreement] = ()) -> list[Row]:
    """Lists every number: the product's own, then against each baseline and the bound.

    A baseline's own value is `value / ratio`; `…_difference` is paired by seed.
    """
    found = [row for each in findings for row in _of(each)]
    for each in agreements:
        name = f"trial at load {each.load:g}"
        for metric, real, simulated in each.pairs():
            found.append(_row(name, metric, real, "seconds", "simulator", simulated))
    return found


def text(found: Sequence[Row]) -> str:
    """Writes the rows as JSON, one a line."""
    return "[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n"


def _of(each: Findings) -> Iterator[Row]:
    name = each.scenario.name
    for measure, unit in UNITS.items():
        own = each.of(PRODUCT, measure)
        yield _row(name, measure, own.mean, unit)
        yield _row(name, f"{measure}_ci95", own.half, unit)
        for other in (*POLICIES, BOUND):
            if other == PRODUCT or not each.knows(other, measure):
                continue
            lead = each.lead(other, measure)
            theirs = each.of(other, measure).mean
            yield _row(name, measure, own.mean, unit, other, theirs)
            if measure in PAIRED:
                yield _row(name, f"{measure}_difference", lead.mean, unit, other)
                yield _row(name, f"{measure}_difference_ci95", lead.half, unit, other)


def _row(
    scenario: str,
    metric: str,
    value: float,
    unit: str,
    versus: str | None = None,
    other: float = 0.0,
) -> Row:
    return {
        "scenario": scenario,
        "metric": metric,
        "value": None if math.isinf(value) else round(value, 5),
        "unit": unit,
        "versus": versus,
        "ratio": round(value / other, 5) if other else None,
    }
